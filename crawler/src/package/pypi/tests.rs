//! What pip writes, read from small texts of our own.

use super::launch::{choose_script, console_scripts};
use super::*;

fn package(name: &str) -> PackageName {
    PackageName {
        registry: Registry::Pypi,
        name: name.to_owned(),
        alternative: None,
    }
}

fn answered(stdout: &str) -> Output {
    Output {
        success: true,
        stdout: stdout.to_owned(),
        stderr: "WARNING: experimental\n".to_owned(),
    }
}

fn refused(stderr: &str) -> Output {
    Output {
        success: false,
        stdout: String::new(),
        stderr: stderr.to_owned(),
    }
}

#[test]
fn only_names_reach_the_client() {
    for name in ["x", "mcp-server-time", "zope.interface", "a_b", "2to3"] {
        assert!(is_name(name), "{name}");
    }
    let long = "a".repeat(201);
    for name in [
        "",
        "-r",
        "--index-url=x",
        ".",
        "..",
        "./x",
        "/etc",
        "x[extra]",
        "x==1",
        "x @ https://x",
        "git+https://x",
        "x y",
        "x.",
        "x\n",
        "x.whl",
        "X.ZIP",
        "x.tar.gz",
        &long,
    ] {
        assert!(!is_name(name), "{name}");
    }
}

#[test]
fn names_are_compared_in_normal_form() {
    assert_eq!(normalised("Zope.Interface__x-Y"), "zope-interface-x-y");
}

#[test]
fn another_index_is_named_last() {
    let mut package = package("x");
    assert_eq!(arguments(&package, &["index"]).last().unwrap(), "index");
    package.alternative = Some("https://pypi.example/simple".to_owned());
    insta::assert_snapshot!(arguments(&package, &["index", "versions"]).join(" "), @"-m pip --disable-pip-version-check --no-input --retries=3 index versions --index-url=https://pypi.example/simple");
}

#[test]
fn versions_are_read_from_their_line() {
    let output =
        answered("x (2.0)\nAvailable versions: 2.0, 1.0.post1, 1.0rc1\n  INSTALLED: 1.0\n  LATEST:    2.0\n");
    insta::assert_debug_snapshot!(read_versions(&package("x"), &output), @r#"
    Ok(
        [
            PublishedVersion {
                version: "2.0",
                published_at: None,
                prerelease: false,
            },
            PublishedVersion {
                version: "1.0.post1",
                published_at: None,
                prerelease: false,
            },
            PublishedVersion {
                version: "1.0rc1",
                published_at: None,
                prerelease: true,
            },
        ],
    )
    "#);
}

#[test]
fn an_answer_without_that_line_is_an_error() {
    insta::assert_snapshot!(read_versions(&package("x"), &answered("x (2.0)\n")).unwrap_err(), @"pip failed: it listed no versions");
}

#[test]
fn a_package_that_is_not_there_is_told_from_an_index_out_of_reach() {
    let none = "ERROR: No matching distribution found for x\n";
    assert_eq!(
        read_versions(&package("x"), &refused(none)),
        Err(package("x").not_found())
    );

    let unreachable = format!(
        "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(<Connection at 0x7f80>: refused)': /simple/x/\n{none}"
    );
    let error = read_versions(&package("x"), &refused(&unreachable)).unwrap_err();
    assert!(error.is_transient());
    insta::assert_snapshot!(error, @"pip could not reach its registry: refused)': /simple/x/");

    let recovered =
        format!("WARNING: Retrying (Retry(total=2, connect=None)) after connection broken by 'x': /\n{none}");
    assert_eq!(
        read_versions(&package("x"), &refused(&recovered)),
        Err(package("x").not_found())
    );

    let newer = format!(
        "ERROR: Ignored the following versions that require a different python version: 1.0 Requires-Python >=3.98; 2.0 Requires-Python >=3.99\n{none}"
    );
    insta::assert_snapshot!(read_versions(&package("x"), &refused(&newer)).unwrap_err(), @"pip failed: `x` needs another Python (>=3.99)");
}

#[test]
fn the_reason_is_the_last_error_that_says_something() {
    insta::assert_snapshot!(
        client_error("ERROR: Cannot install x because these versions conflict.\nERROR: ResolutionImpossible: for help visit x\n"),
        @"pip failed: Cannot install x because these versions conflict."
    );
    insta::assert_snapshot!(client_error("Traceback\nOSError: disk full\n\n"), @"pip failed: OSError: disk full");
    insta::assert_snapshot!(client_error(""), @"pip failed: it gave no reason");
}

fn check_missing(stderr: &str) -> Option<Missing> {
    Missing::read(&package("x-y"), "9.0", stderr)
}

#[test]
fn a_missing_version_is_told_from_a_missing_dependency() {
    let own =
        "ERROR: Could not find a version that satisfies the requirement x_y==9.0 (from versions: 1.0, 2.0)\n";
    assert_eq!(check_missing(own), Some(Missing::Own));
    let dependency = "ERROR: Could not find a version that satisfies the requirement dep<3,>=2 (from x-y) (from versions: none)\n";
    let expected = Missing::Dependency {
        name: "dep".to_owned(),
        asked: "<3,>=2".to_owned(),
    };
    assert_eq!(check_missing(dependency), Some(expected));
    let too_old = "ERROR: Could not find a version that satisfies the requirement dep>=2 (from x-y) (from versions: 1.0)\n";
    assert_eq!(check_missing(too_old), None);
    assert_eq!(check_missing("ERROR: something else\n"), None);
    assert_eq!(check_missing(&format!("WARNING: {LAST_RETRY}, x))\n{own}")), None);
}

#[test]
fn a_version_for_another_python_is_not_missing() {
    let stderr = "ERROR: Ignored the following versions that require a different python version: 9.0.0 Requires-Python >=3.99\n\
        ERROR: Could not find a version that satisfies the requirement x-y==9.0 (from versions: 1.0)\n";
    assert_eq!(other_python(stderr, Some("9.0.0")).as_deref(), Some(">=3.99"));
    assert_eq!(other_python(stderr, Some("8.0")), None);
}

#[test]
fn a_published_version_without_a_wheel_needs_a_build() {
    let published = |version: &str| PublishedVersion {
        version: version.to_owned(),
        published_at: None,
        prerelease: false,
    };
    let check = |exact: &str| explain_own(&package("x"), exact, &[published("1.0"), published("2.0.0")]);
    assert!(
        matches!(check("2.0"), PackageError::NeedsBuild { .. }),
        "equal by the rules"
    );
    assert_eq!(check("3.0"), package("x").no_such_version("3.0"));
}

const REPORT: &str = r#"{"version":"1","install":[
    {"download_info":{"url":"https://files.example/x.whl","archive_info":{"hashes":{"sha256":"aa"}}},"is_direct":false,
     "metadata":{"name":"X_Y","version":"2025.07.01"}},
    {"download_info":{"archive_info":{"hash":"sha256=cc"}},"is_direct":false,"metadata":{"name":"zeta","version":"1"}},
    {"download_info":{"archive_info":{"hashes":{"sha256":"bb"}}},"is_direct":false,"metadata":{"name":"Alpha","version":"3"}}]}"#;

#[test]
fn a_report_tells_the_hash_and_the_digest_of_all_else() {
    let record = read_report(&package("x-y"), REPORT).unwrap();
    assert_eq!(
        (record.version.as_str(), record.integrity.as_deref()),
        ("2025.7.1", Some("sha256:aa"))
    );
    let covered = concat!(
        r#"[{"integrity":"sha256:bb","name":"alpha","version":"3"},"#,
        r#"{"integrity":"sha256:cc","name":"zeta","version":"1"}]"#
    );
    assert_eq!(
        record.dependencies,
        Some(Digest::of_canonical(covered).to_string())
    );
}

#[test]
fn a_report_with_something_from_elsewhere_or_without_a_hash_is_refused() {
    let check = |text: &str| read_report(&package("x-y"), text).unwrap_err().to_string();
    insta::assert_snapshot!(check(&REPORT.replacen(r#""is_direct":false"#, r#""is_direct":true"#, 1)), @"pip failed: `x-y` comes from outside the index");
    insta::assert_snapshot!(check(&REPORT.replace(r#"{"hash":"sha256=cc"}"#, "{}")), @"pip failed: no hash is known for `zeta`");
    insta::assert_snapshot!(check(&REPORT.replace("X_Y", "other")), @"pip failed: report.json does not name the package");
    insta::assert_snapshot!(check("[]"), @"pip failed: report.json: invalid length 0, expected struct Report with 1 element at line 1 column 2");
}

#[test]
fn the_script_is_the_one_named_as_the_package_or_the_only_one() {
    let check = |text: &str| {
        choose_script(&package("x-y"), &console_scripts(text))
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(
        check("[console_scripts]\na = m:f\nx_y = m:main\n\n[gui_scripts]\nz = m:g\n"),
        "x_y"
    );
    assert_eq!(
        check("[other]\nx-y = m:f\n[console_scripts]\nonly = m:main [extra]\n"),
        "only"
    );
    assert_eq!(check("[console_scripts]\na = m:f\nb = m:g\n"), "");
    assert_eq!(check("[console_scripts]\n# c = m:f\n../a = m:f\n"), "");
    assert_eq!(check(""), "");
}

#[test]
fn a_module_is_run_when_there_is_no_script() {
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("venv/lib/python3.11/site-packages");
    std::fs::create_dir_all(packages.join("x_y")).unwrap();
    assert_eq!(
        launch(&package("x-y"), "1.0", folder.path()).err(),
        Some(package("x-y").no_program("1.0"))
    );
    std::fs::write(packages.join("x_y/__main__.py"), "").unwrap();
    let launch = launch(&package("x-y"), "1.0", folder.path()).unwrap();
    assert_eq!(
        launch.program,
        folder.path().join("venv/bin/python").display().to_string()
    );
    assert_eq!(launch.args, ["-m", "x_y"]);
    assert_eq!(launch.env[0].0, "PYTHONHASHSEED");
}
