//! How an installed PyPI package is started.
//!
//! The server starts with `PYTHONHASHSEED=0`: real servers list a set in the order of its hashes, and would otherwise declare
//! something else at each start.
//!
//! Invariant: what is started is the environment's own Python, with something that the package itself declares.

use std::path::{Path, PathBuf};

use mcpindex::wire::stdio::Launch;

use super::{ENVIRONMENT, normalised};
use crate::package::client::read_bounded;
use crate::package::{PackageError, PackageName};

/// How to start what is installed in `folder`: the console script named as the package, else the only one, else the module
/// named as the package when it can be run. A script is given to the environment's Python by path, since the path in its
/// own first line is that of the folder it was installed in.
pub(in crate::package) fn launch(
    package: &PackageName,
    version: &str,
    folder: &Path,
) -> Result<Launch, PackageError> {
    let environment = folder.join(ENVIRONMENT);
    let packages = site_packages(&environment).ok_or_else(|| package.no_program(version))?;
    let scripts = read_scripts(package, &packages);
    let script = choose_script(package, &scripts).map(|script| environment.join("bin").join(script));
    let module = normalised(&package.name).replace('-', "_");
    let args = match script.filter(|script| script.is_file()) {
        Some(script) => vec![script.display().to_string()],
        None if packages.join(&module).join("__main__.py").is_file() => vec!["-m".to_owned(), module],
        None => return Err(package.no_program(version)),
    };
    Ok(Launch {
        program: environment.join("bin/python").display().to_string(),
        args,
        env: vec![("PYTHONHASHSEED".to_owned(), "0".to_owned().into())],
        cwd: None,
        label: None,
        jail: None,
    })
}

fn site_packages(environment: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(environment.join("lib")).ok()?;
    versions
        .filter_map(Result::ok)
        .map(|version| version.path().join("site-packages"))
        .find(|path| path.is_dir())
}

/// The console scripts that the package's own wheel declares.
fn read_scripts(package: &PackageName, packages: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(packages) else {
        return Vec::new();
    };
    let is_own = |folder: &str| {
        folder
            .strip_suffix(".dist-info")
            .and_then(|folder| folder.split_once('-'))
            .is_some_and(|(name, _)| normalised(name) == normalised(&package.name))
    };
    let own = entries
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().to_str().is_some_and(is_own));
    let text = own.and_then(|own| read_bounded(&own.path().join("entry_points.txt")).ok());
    text.map(|text| console_scripts(&text)).unwrap_or_default()
}

/// The names under `[console_scripts]` of an `entry_points.txt`, sorted. A name that is no plain file name is left out.
pub(super) fn console_scripts(text: &str) -> Vec<String> {
    let mut section = "";
    let mut scripts = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section == "[console_scripts]"
            && !line.starts_with(['#', ';'])
            && let Some((name, _)) = line.split_once('=')
            && !name.contains('/')
        {
            scripts.push(name.trim().to_owned());
        }
    }
    scripts.sort();
    scripts
}

pub(super) fn choose_script<'a>(package: &PackageName, scripts: &'a [String]) -> Option<&'a String> {
    let named = scripts
        .iter()
        .find(|script| normalised(script) == normalised(&package.name));
    named.or(match scripts {
        [only] => Some(only),
        _ => None,
    })
}
