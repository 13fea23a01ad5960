//! From what a person typed to how a server is started.
//!
//! The server runs in a directory of its own, so paths that were meant from where the person stands are made absolute
//! first: the program when it has a separator, and an argument when that file exists and it is written like a path
//! (`./x`, `../x`, `dir/x`, or a bare file name with an extension such as `server.js`). Package names, options, URLs
//! and words are left alone.
//!
//! Invariant: nothing is changed that names no existing file.

use std::path::{Path, PathBuf};

use mcpindex::wire::stdio::Launch;
use mcpindex_contract::identity::Identity;
use secrecy::SecretString;

/// The launch line that these arguments mean. An error is one line for the person.
pub(super) fn resolve(
    command: &[String],
    env: &[String],
    cwd: Option<PathBuf>,
    here: &Path,
) -> Result<Launch, String> {
    let [program, args @ ..] = command else {
        return Err("the command is empty".to_owned());
    };
    let env = env
        .iter()
        .map(|entry| variable(entry))
        .collect::<Result<_, _>>()?;
    let cwd = cwd.map(|cwd| here.join(cwd));
    if let Some(cwd) = cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(format!("--cwd: `{}` is no directory", cwd.display()));
    }
    let program = if program.contains('/') {
        absolute(program, here)
    } else {
        program.clone()
    };
    let args = match cwd {
        Some(_) => args.to_vec(),
        None => args
            .iter()
            .map(|argument| {
                if is_path(argument, here) {
                    absolute(argument, here)
                } else {
                    argument.clone()
                }
            })
            .collect(),
    };
    Ok(Launch {
        program,
        args,
        env,
        cwd,
        label: Identity::from_launch(command)
            .ok()
            .map(|launched| launched.identity.to_string()),
        jail: None,
    })
}

/// `NAME=VALUE`, or `NAME` to pass on one's own. The value is in no message.
fn variable(entry: &str) -> Result<(String, SecretString), String> {
    let (name, value) = match entry.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (entry, None),
    };
    if name.is_empty() {
        return Err("--env needs a name: NAME=VALUE, or NAME to pass on your own".to_owned());
    }
    match value.or_else(|| std::env::var(name).ok()) {
        Some(value) => Ok((name.to_owned(), value.into())),
        None => Err(format!("--env {name}: the variable is not set here")),
    }
}

fn is_path(argument: &str, here: &Path) -> bool {
    let written_as_path = argument.starts_with("./")
        || argument.starts_with("../")
        || (argument.contains('/') && !argument.starts_with(['@', '-', '/']) && !argument.contains("://"));
    if written_as_path {
        return here.join(argument).exists();
    }
    let bare_file = !argument.contains('/') && !argument.starts_with(['@', '-', '.']);
    bare_file && Path::new(argument).extension().is_some() && here.join(argument).is_file()
}

fn absolute(path: &str, here: &Path) -> String {
    // Only the leading `./` goes: `..` through a link is not what removing it from the text would say.
    here.join(path.strip_prefix("./").unwrap_or(path))
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of an argument where `server.js`, `src/run.py` and the directory `data` exist.
    fn check(argument: &str, expected: &str) {
        let here = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(here.path().join("src")).unwrap();
        std::fs::create_dir_all(here.path().join("data")).unwrap();
        std::fs::write(here.path().join("server.js"), "").unwrap();
        std::fs::write(here.path().join("src/run.py"), "").unwrap();
        let command = ["node".to_owned(), argument.to_owned()];
        let launch = resolve(&command, &[], None, here.path()).unwrap();
        let found = launch.args[0].replace(here.path().to_str().unwrap(), "HERE");
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_written_as_a_path_and_exists_is_made_absolute() {
        check("server.js", "HERE/server.js");
        check("./server.js", "HERE/server.js");
        check("src/run.py", "HERE/src/run.py");
        check("./data", "HERE/data");
    }

    #[test]
    fn all_else_is_left_alone() {
        for argument in [
            "data",
            "other.js",
            "./other",
            "@scope/pkg",
            "pkg@1.2",
            "-y",
            "--in=server.js",
            "https://a.b/c",
            "/etc/hosts",
        ] {
            check(argument, argument);
        }
    }

    #[test]
    fn a_program_with_a_separator_is_one_of_here() {
        let launch = resolve(&["./run".to_owned()], &[], None, Path::new("/here")).unwrap();
        assert_eq!(launch.program, "/here/run");
        let launch = resolve(&["run".to_owned()], &[], None, Path::new("/here")).unwrap();
        assert_eq!(launch.program, "run");
    }

    #[test]
    fn mistakes_are_told_and_values_are_not() {
        fn check(env: &str, expected: &str) {
            let found = resolve(&["x".to_owned()], &[env.to_owned()], None, Path::new("/")).err();
            assert_eq!(found.as_deref(), Some(expected));
        }
        check(
            "=secret",
            "--env needs a name: NAME=VALUE, or NAME to pass on your own",
        );
        check(
            "MCPINDEX_NEVER_SET",
            "--env MCPINDEX_NEVER_SET: the variable is not set here",
        );
    }
}
