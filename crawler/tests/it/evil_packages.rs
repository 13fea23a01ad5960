//! Packages that run what nobody asked for, come from elsewhere, or are not what they are called: by the real clients, from a registry
//! that the test is.
//!
//! Whatever runs in a client's jail has its network, so each evil piece asks the test's registry for a path below `/ran`, and leaves a
//! file whose name begins with `ran-` where it is.
//!
//! Invariant: nobody but loopback is asked for anything.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse as _;
use mcpindex::inspect::inspect_stdio;
use mcpindex::wire::limits::Limits;
use mcpindex_contract::identity::Registry as Kind;
use mcpindex_contract::outcome::Outcome;
use mcpindex_crawler::package::{Installed, PackageError, PackageName, Packages};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::desk::settings;

/// Packs texts by their paths into a `.tgz` or a zip, and says the SHA-512 and the SHA-256 of it. A text that begins with `-> ` is a link.
const PACK: &str = r"
import base64, hashlib, io, json, sys, tarfile, zipfile
asked = json.load(sys.stdin)
with open(asked['to'], 'wb') as out:
    if asked['to'].endswith('.whl'):
        with zipfile.ZipFile(out, 'w') as archive:
            for path, text in asked['files'].items():
                archive.writestr(path, text)
    else:
        with tarfile.open(fileobj=out, mode='w:gz') as archive:
            for path, text in asked['files'].items():
                entry = tarfile.TarInfo(path)
                if text.startswith('-> '):
                    entry.type, entry.linkname = tarfile.SYMTYPE, text[3:]
                    archive.addfile(entry)
                else:
                    data = text.encode()
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
data = open(asked['to'], 'rb').read()
print('sha512-' + base64.b64encode(hashlib.sha512(data).digest()).decode(), hashlib.sha256(data).hexdigest())
";

/// What of a package is evil: Node.js asks for the path, then leaves its file.
const EVIL_JS: &str = "const what = process.argv[2]; require('fs').writeFileSync('ran-' + what, '');
    require('http').get('URL/ran/' + what).on('error', () => {});";

const EVIL_PY: &str = "import os, urllib.request
try:
    open(os.path.join(os.path.dirname(__file__), 'ran-WHAT'), 'w').close()
except Exception:
    pass
try:
    open('OUTSIDE/mark', 'w').close()
except Exception:
    pass
try:
    urllib.request.urlopen('URL/ran/WHAT', timeout=2)
except Exception:
    pass
";

type Answers = Arc<Mutex<HashMap<String, (&'static str, Vec<u8>)>>>;

/// A registry of both kinds, a cache, and a folder that nothing is to be written into.
struct Shop {
    url: String,
    answers: Answers,
    asked: Arc<Mutex<Vec<String>>>,
    files: TempDir,
    cache: TempDir,
    outside: TempDir,
}

impl Shop {
    async fn open() -> Shop {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = Answers::default();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (given, heard) = (Arc::clone(&answers), Arc::clone(&asked));
        let app = axum::Router::new().fallback(async move |uri: Uri| {
            let path = uri.path().trim_matches('/').replace("%2f", "/");
            heard.lock().unwrap().push(path.clone());
            match given.lock().unwrap().get(&path) {
                Some((kind, bytes)) => ([(header::CONTENT_TYPE, *kind)], bytes.clone()).into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            }
        });
        tokio::spawn(axum::serve(listener, app).into_future());
        Shop {
            url,
            answers,
            asked,
            files: tempfile::tempdir().unwrap(),
            cache: tempfile::tempdir().unwrap(),
            outside: tempfile::tempdir().unwrap(),
        }
    }

    fn answer(&self, path: &str, kind: &'static str, bytes: impl Into<Vec<u8>>) {
        let answer = (kind, bytes.into());
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    fn filled(&self, text: &str) -> String {
        text.replace("URL", &self.url)
            .replace("OUTSIDE", &self.outside.path().display().to_string())
    }

    /// Packs these files, and answers with them at the path; gives back both hashes.
    fn pack(&self, path: &str, files: &[(&str, &str)]) -> (String, String) {
        let files: HashMap<&str, String> = files
            .iter()
            .map(|(path, text)| (*path, self.filled(text)))
            .collect();
        let to = self.files.path().join(path.rsplit('/').next().unwrap());
        let mut packing = Command::new("python3")
            .args(["-c", PACK])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let order = json!({ "to": to, "files": files }).to_string();
        packing.stdin.take().unwrap().write_all(order.as_bytes()).unwrap();
        let said = String::from_utf8(packing.wait_with_output().unwrap().stdout).unwrap();
        let (long, short) = said.trim().split_once(' ').unwrap();
        self.answer(path, "application/octet-stream", std::fs::read(to).unwrap());
        (long.to_owned(), short.to_owned())
    }

    /// Publishes version 1.0.0 of an npm package with this manifest and these files beside it; `change` is what the registry says of it
    /// that is not so.
    fn npm(
        &self,
        name: &str,
        manifest: Value,
        files: &[(&str, &str)],
        change: impl FnOnce(&mut Value),
    ) -> PackageName {
        let mut manifest = manifest;
        manifest["name"] = name.into();
        manifest["version"] = "1.0.0".into();
        let text = self.filled(&manifest.to_string());
        let mut all = vec![
            ("package/package.json", text.as_str()),
            ("package/evil.js", EVIL_JS),
        ];
        all.extend_from_slice(files);
        let archive = format!("{name}/-/{name}-1.0.0.tgz");
        let (integrity, _) = self.pack(&archive, &all);
        let mut told: Value = serde_json::from_str(&text).unwrap();
        told["dist"] = json!({ "tarball": format!("{}/{archive}", self.url), "integrity": integrity });
        change(&mut told);
        let document =
            json!({ "name": name, "dist-tags": { "latest": "1.0.0" }, "versions": { "1.0.0": told } });
        self.answer(name, "application/json", document.to_string());
        self.named(Kind::Npm, name)
    }

    /// Publishes one file of a project on the index.
    fn pypi(&self, name: &str, file: &str, files: &[(&str, &str)]) -> PackageName {
        let (_, hash) = self.pack(&format!("files/{file}"), files);
        let page = format!(
            "<!DOCTYPE html><a href=\"{}/files/{file}#sha256={hash}\">{file}</a>",
            self.url
        );
        self.answer(name, "text/html", page);
        self.named(Kind::Pypi, name)
    }

    fn named(&self, registry: Kind, name: &str) -> PackageName {
        PackageName {
            registry,
            name: name.to_owned(),
            alternative: Some(format!("{}/", self.url)),
        }
    }

    async fn install(&self, package: &PackageName) -> Result<Installed, PackageError> {
        let packages = Packages::new(&settings(self.cache.path()));
        let installed = packages.install(package, "1.0.0").await;
        self.check_quiet().await;
        installed
    }

    /// Nothing ran, nothing was asked for that only evil pieces ask for, nothing of a call is left.
    async fn check_quiet(&self) {
        let asked = self.asked.lock().unwrap().clone();
        let ran: Vec<_> = asked.iter().filter(|path| path.starts_with("ran")).collect();
        assert!(ran.is_empty(), "{ran:?}");
        let left: Vec<PathBuf> = all_below(self.cache.path())
            .into_iter()
            .filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.starts_with("ran-") || name.starts_with("work-") || name.ends_with(".partial")
            })
            .collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(std::fs::read_dir(self.outside.path()).unwrap().count(), 0);
        let cache = self.cache.path().display().to_string();
        // What was killed takes a moment to be gone.
        let gone = async {
            while is_running(&cache) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone)
            .await
            .expect("no client and no server is left");
    }

    /// Looks at what was installed; what it is made of runs then, within its jail.
    async fn look(&self, installed: &Installed) -> Outcome {
        let inspection = inspect_stdio(&installed.launch, &Limits::crawl()).await;
        self.check_quiet().await;
        inspection.outcome()
    }
}

/// Whether a process of this machine has this text in its command line.
fn is_running(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(mark))
}

fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

fn failure(installed: Result<Installed, PackageError>) -> (Outcome, String) {
    let error = installed.err().expect("it can't be installed");
    (error.outcome(), error.to_string())
}

#[tokio::test]
async fn no_script_of_an_npm_package_runs() {
    let shop = Shop::open().await;
    let scripts: HashMap<&str, String> = [
        "preinstall",
        "install",
        "postinstall",
        "prepublish",
        "preprepare",
        "prepare",
        "postprepare",
        "prepack",
        "dependencies",
    ]
    .map(|name| (name, format!("node evil.js {name}")))
    .into();
    let manifest = json!({
        "bin": "server.js", "scripts": scripts, "dependencies": { "helper": "1.0.0" }, "gypfile": true,
    });
    let server = "try { require('fs').writeFileSync('OUTSIDE/mark', '') } catch {} require('./evil.js')";
    let files = [
        ("package/server.js", server),
        ("package/.npmrc", "ignore-scripts=false\nscript-shell=/bin/sh\n"),
        (
            "package/binding.gyp",
            "{'targets': [{'target_name': 'x', 'sources': ['<!(node evil.js gyp)']}]}",
        ),
    ];
    let package = shop.npm("loud", manifest, &files, |_| {});
    shop.npm(
        "helper",
        json!({ "scripts": { "install": "node evil.js helper" } }),
        &[],
        |told| {
            told["hasInstallScript"] = true.into();
        },
    );
    let installed = shop.install(&package).await.unwrap();
    assert!(installed.has_install_script);
    assert_eq!(shop.look(&installed).await, Outcome::Crashed);
}

#[tokio::test]
async fn a_dependency_from_elsewhere_is_not_fetched() {
    let check = async |asked: &str, member: &str| {
        let shop = Shop::open().await;
        let asked = shop.filled(asked);
        let manifest = json!({ "bin": "evil.js", member: { "elsewhere": asked } });
        let package = shop.npm("drawn", manifest, &[], |_| {});
        match shop.install(&package).await {
            // What is optional and can't be had is left out.
            Ok(_) => {
                let found = all_below(shop.cache.path());
                assert!(!found.iter().any(|path| path.ends_with("elsewhere")), "{asked}");
                assert_eq!(member, "optionalDependencies", "{asked}");
            }
            Err(error) => assert_eq!(error.outcome(), Outcome::InstallFailed, "{asked}: {error}"),
        }
    };
    for (first, second) in [
        (
            "git+http://127.0.0.1:1/ran/repository.git",
            "git+file:///ran/repository",
        ),
        ("URL/ran/archive.tgz", "file:../../../../../../../etc"),
        ("link:/etc", "owner/repository"),
    ] {
        tokio::join!(check(first, "dependencies"), check(second, "dependencies"));
    }
    let archive = "URL/ran/archive.tgz";
    tokio::join!(
        check(archive, "optionalDependencies"),
        check(archive, "peerDependencies")
    );
}

#[tokio::test]
async fn a_program_out_of_its_package_is_none() {
    let shop = Shop::open().await;
    let files = [
        ("package/link.js", "-> /etc/passwd"),
        ("package/up", "-> ../../.."),
    ];
    for (number, bin) in ["../../../../../../bin/sh", "/bin/sh", "link.js", "up/bin/sh"]
        .iter()
        .enumerate()
    {
        let name = format!("climbing{number}");
        let package = shop.npm(&name, json!({ "bin": { &name: bin } }), &files, |_| {});
        let (outcome, said) = failure(shop.install(&package).await);
        assert_eq!(outcome, Outcome::InstallFailed, "{bin}: {said}");
        assert_eq!(said, format!("`{name}` 1.0.0 has no program to start"));
    }
}

#[tokio::test]
async fn what_an_npm_registry_gives_is_what_was_asked_for() {
    let bin = || json!({ "bin": "evil.js" });
    let check = async |change: fn(&mut Value), expected: &str| {
        let shop = Shop::open().await;
        let package = shop.npm("asked", bin(), &[], change);
        let (outcome, said) = failure(shop.install(&package).await);
        assert_eq!(outcome, Outcome::InstallFailed, "{said}");
        assert!(said.contains(expected), "{said}");
    };
    check(
        |told| told["name"] = "other".into(),
        "the registry answered with `other`",
    )
    .await;
    check(
        |told| told["version"] = "2.0.0".into(),
        "the registry answered with version 2.0.0",
    )
    .await;
    check(
        |told| told["dist"]["integrity"] = format!("sha512-{}==", "A".repeat(86)).into(),
        "integrity",
    )
    .await;
}

#[tokio::test]
async fn nothing_of_a_wheel_runs_before_its_server_and_then_it_is_in_a_jail() {
    let shop = Shop::open().await;
    let mut files: Vec<(String, String)> = vec![
        (
            "evil-1.0.0.dist-info/METADATA".to_owned(),
            "Metadata-Version: 2.1\nName: evil\nVersion: 1.0.0\n".to_owned(),
        ),
        (
            "evil-1.0.0.dist-info/WHEEL".to_owned(),
            "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned(),
        ),
        (
            "evil-1.0.0.dist-info/entry_points.txt".to_owned(),
            "[console_scripts]\nevil = evil_server:main\n".to_owned(),
        ),
        ("evil-1.0.0.dist-info/RECORD".to_owned(), String::new()),
        (
            "evil_server.py".to_owned(),
            format!("{}def main():\n    pass\n", EVIL_PY.replace("WHAT", "server")),
        ),
        ("evil.pth".to_owned(), "import evil_pth\n".to_owned()),
    ];
    // What the client itself might import late, from the environment that it has just filled.
    for module in [
        "evil_pth",
        "sitecustomize",
        "usercustomize",
        "keyring",
        "truststore",
        "brotli",
        "brotlicffi",
        "socks",
        "colorama",
        "pip",
        "setuptools",
        "simplejson",
        "chardet",
        "cryptography",
        "OpenSSL",
        "lockfile",
        "redis",
        "sysconfig",
        "compileall",
        "ctags",
        "jnius",
    ] {
        files.push((format!("{module}.py"), EVIL_PY.replace("WHAT", module)));
    }
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let package = shop.pypi("evil", "evil-1.0.0-py3-none-any.whl", &files);
    let installed = shop.install(&package).await.unwrap();
    assert_eq!(shop.look(&installed).await, Outcome::Crashed);
}

#[tokio::test]
async fn a_source_distribution_is_not_built() {
    let shop = Shop::open().await;
    let setup = EVIL_PY.replace("WHAT", "setup")
        + "from setuptools import setup\nsetup(name='raw', version='1.0.0')\n";
    let files = [
        ("raw-1.0.0/setup.py", setup.as_str()),
        (
            "raw-1.0.0/PKG-INFO",
            "Metadata-Version: 2.1\nName: raw\nVersion: 1.0.0\n",
        ),
        (
            "raw-1.0.0/pyproject.toml",
            "[build-system]\nrequires = []\nbuild-backend = 'setup'\nbackend-path = ['.']\n",
        ),
    ];
    let package = shop.pypi("raw", "raw-1.0.0.tar.gz", &files);
    let (outcome, said) = failure(shop.install(&package).await);
    assert_eq!(outcome, Outcome::NeedsInstallScript, "{said}");
    let versions = Packages::new(&settings(shop.cache.path()))
        .versions(&package)
        .await;
    assert_eq!(versions.unwrap().len(), 1);
    shop.check_quiet().await;
}

#[tokio::test]
async fn a_wheel_that_is_another_or_climbs_is_refused() {
    let wheel = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let check = async |file: &str, information: &str, metadata: &str, extra: &str, expected: Outcome| {
        let shop = Shop::open().await;
        let path = |name: &str| format!("{information}.dist-info/{name}");
        let (meta, kind, record) = (path("METADATA"), path("WHEEL"), path("RECORD"));
        let files = [
            (meta.as_str(), metadata),
            (kind.as_str(), wheel),
            (record.as_str(), ""),
            (extra, "x"),
        ];
        let package = shop.pypi("asked", file, &files);
        let (outcome, said) = failure(shop.install(&package).await);
        assert_eq!(outcome, expected, "{file}, {metadata:?}, {extra}: {said}");
    };
    let named =
        |name: &str, version: &str| format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    let (right, file) = (named("asked", "1.0.0"), "asked-1.0.0-py3-none-any.whl");
    check(
        "other-1.0.0-py3-none-any.whl",
        "other-1.0.0",
        &named("other", "1.0.0"),
        "x.py",
        Outcome::PackageNotFound,
    )
    .await;
    check(
        file,
        "asked-1.0.0",
        &named("other", "1.0.0"),
        "x.py",
        Outcome::InstallFailed,
    )
    .await;
    // The index says that there is such a version, and no wheel of it is taken.
    check(
        file,
        "asked-1.0.0",
        &named("asked", "2.0.0"),
        "x.py",
        Outcome::NeedsInstallScript,
    )
    .await;
    check(file, "other-1.0.0", &right, "x.py", Outcome::InstallFailed).await;
    for climbing in [
        "../../../../../ran-up.py",
        "/ran-root.py",
        "asked-1.0.0.data/scripts/../../../ran-script",
    ] {
        check(file, "asked-1.0.0", &right, climbing, Outcome::InstallFailed).await;
    }
}

#[tokio::test]
async fn a_description_without_end_is_not_read() {
    let shop = Shop::open().await;
    let long = "x".repeat(5 << 20);
    let package = shop.npm(
        "wordy",
        json!({ "bin": "evil.js" }),
        &[(
            "package/package.json",
            &format!("{{\"bin\":\"evil.js\",\"x\":\"{long}\"}}"),
        )],
        |_| {},
    );
    let (outcome, said) = failure(shop.install(&package).await);
    assert_eq!(outcome, Outcome::InstallFailed, "{said}");
    assert!(
        said.contains("package.json is longer than 4194304 bytes"),
        "{said}"
    );
}
