//! What npm writes, read from small texts of our own.

use super::*;

fn package(name: &str) -> PackageName {
    PackageName {
        registry: Registry::Npm,
        name: name.to_owned(),
        alternative: None,
    }
}

fn answered(stdout: &str) -> Output {
    Output {
        success: true,
        stdout: stdout.to_owned(),
        stderr: String::new(),
    }
}

fn refused(code: &str, summary: &str, detail: &str) -> Output {
    let stdout =
        serde_json::json!({ "error": { "code": code, "summary": summary, "detail": detail } }).to_string();
    Output {
        success: false,
        stdout,
        stderr: "npm error code\n".to_owned(),
    }
}

#[test]
fn only_names_reach_the_client() {
    for name in ["x", "is-odd", "@scope/name", "JSONStream", "a.b_c~d", "2name"] {
        assert!(is_name(name), "{name}");
    }
    let long = "a".repeat(215);
    for name in [
        "",
        "-g",
        "--registry=x",
        ".",
        "..",
        "./x",
        "/etc",
        "~/x",
        "user/repo",
        "@scope",
        "@scope/",
        "@/x",
        "@scope/a/b",
        "@scope/-x",
        "x.tgz",
        "@scope/x.tar.gz",
        "git+ssh://x",
        "https://x",
        "x y",
        "x@1",
        "x\n",
        &long,
    ] {
        assert!(!is_name(name), "{name}");
    }
}

#[test]
fn an_installation_runs_no_script_and_fetches_only_from_the_registry() {
    insta::assert_snapshot!(install_arguments(&package("@scope/name")).join("\n"), @r#"
    install
    --ignore-scripts
    --no-audit
    --no-fund
    --json
    --prefix=.
    --global=false
    --omit=dev
    --install-strategy=hoisted
    --package-lock=true
    --lockfile-version=3
    --omit-lockfile-registry-resolved=true
    --fetch-retry-mintimeout=1000
    --fetch-retry-maxtimeout=10000
    --allow-git=none
    --allow-remote=none
    --allow-file=none
    --allow-directory=none
    --git=mcpindex-refuses-git
    "#);
}

#[test]
fn another_registry_is_asked_for_the_scope_too() {
    let mut package = package("@scope/name");
    package.alternative = Some("https://npm.example/".to_owned());
    insta::assert_snapshot!(view_arguments(&package).join(" "), @"view --json @scope/name versions time --registry=https://npm.example/ --@scope:registry=https://npm.example/");
    assert!(install_arguments(&package).contains(&"--@scope:registry=https://npm.example/".to_owned()));
}

#[test]
fn versions_come_with_their_times() {
    let answer = r#"{"versions":["1.0.0","1.1.0-rc.1","01.2.0"],"time":{"created":"2024-01-01T00:00:00.000Z",
        "1.0.0":"2024-01-02T03:04:05.678Z","1.1.0-rc.1":"2024-02-01T00:00:00.347000+00:00"}}"#;
    insta::assert_debug_snapshot!(read_view(&package("x"), &answered(answer)), @r#"
    Ok(
        [
            PublishedVersion {
                version: "1.0.0",
                published_at: Some(
                    1704164645,
                ),
                prerelease: false,
            },
            PublishedVersion {
                version: "1.1.0-rc.1",
                published_at: Some(
                    1706745600,
                ),
                prerelease: true,
            },
            PublishedVersion {
                version: "01.2.0",
                published_at: None,
                prerelease: true,
            },
        ],
    )
    "#);
}

#[test]
fn a_lone_version_is_a_text_and_times_may_be_missing() {
    for answer in [
        r#"{"versions":"1.0.0"}"#,
        r#""1.0.0""#,
        r#"["1.0.0"]"#,
        r#"{"versions":["1.0.0"],"time":{}}"#,
    ] {
        let versions = read_view(&package("x"), &answered(answer)).unwrap();
        let expected = PublishedVersion {
            version: "1.0.0".to_owned(),
            published_at: None,
            prerelease: false,
        };
        assert_eq!(versions, [expected], "{answer}");
    }
}

#[test]
fn a_package_without_versions_is_not_found() {
    for output in [
        answered(""),
        answered("{}"),
        refused("E404", "Not Found - GET https://npm.example/x", "…"),
    ] {
        assert_eq!(read_view(&package("x"), &output), Err(package("x").not_found()));
    }
}

#[test]
fn an_answer_that_is_no_json_is_an_error() {
    let error = read_view(&package("x"), &answered("<html>")).unwrap_err();
    insta::assert_snapshot!(error, @"npm failed: its answer is no JSON: expected value at line 1 column 1");
}

#[test]
fn a_registry_out_of_reach_is_told_from_other_failures() {
    let unreachable = refused(
        "ECONNREFUSED",
        "request to https://npm.example/x failed,\n reason: connect ECONNREFUSED",
        "",
    );
    let error = read_view(&package("x"), &unreachable).unwrap_err();
    assert!(error.is_transient());
    insta::assert_snapshot!(error, @"npm could not reach its registry: request to https://npm.example/x failed, reason: connect ECONNREFUSED");

    let error = read_view(&package("x"), &refused("E401", "Unable to authenticate", "")).unwrap_err();
    assert!(!error.is_transient());
    insta::assert_snapshot!(error, @"npm failed: Unable to authenticate");
}

#[test]
fn without_json_the_last_words_are_the_reason() {
    let stderr = "npm warn old\nnpm error code EWHAT\nnpm error something broke\nnpm error\nnpm error A complete log of this run can be found in: x\n";
    let output = Output {
        success: false,
        stdout: String::new(),
        stderr: stderr.to_owned(),
    };
    insta::assert_snapshot!(read_view(&package("x"), &output).unwrap_err(), @"npm failed: something broke");
    let silent = Output {
        success: false,
        stdout: String::new(),
        stderr: String::new(),
    };
    insta::assert_snapshot!(read_view(&package("x"), &silent).unwrap_err(), @"npm failed: it gave no reason");
}

#[test]
fn a_missing_version_is_told_from_a_missing_dependency() {
    let check = |output: &Output| install_error(&package("x"), "9.0.0", output);
    let none = package("x").no_such_version("9.0.0");
    assert_eq!(
        check(&refused("ETARGET", "No matching version found for x@9.0.0.", "")),
        none
    );
    assert_eq!(
        check(&refused(
            "E404",
            "No match found for version 9.0.0",
            "resource 'x@9.0.0' could not be found"
        )),
        none
    );
    assert_eq!(
        check(&refused(
            "E404",
            "Not Found - GET https://npm.example/x",
            "resource 'x@9.0.0' could not be found"
        )),
        package("x").not_found()
    );
    let dependency = check(&refused(
        "ETARGET",
        "No matching version found for dep-x@9.0.0.",
        "",
    ));
    insta::assert_snapshot!(dependency, @"npm failed: No matching version found for dep-x@9.0.0.");
    let git = check(&refused(
        "EALLOWGIT",
        "Fetching packages of type \"git\" have been disabled",
        "",
    ));
    insta::assert_snapshot!(git, @r#"npm failed: a dependency comes from outside the registry: Fetching packages of type "git" have been disabled"#);
}

const LOCK: &str = r#"{"lockfileVersion":3,"packages":{
    "":{"dependencies":{"x":"1.0.0"}},
    "node_modules/x":{"version":"1.0.0","integrity":"sha512-own"},
    "node_modules/dep":{"version":"2.0.0","integrity":"sha512-dep"},
    "node_modules/dep/node_modules/packed":{"version":"0.1.0","inBundle":true},
    "node_modules/other-platform":{"version":"3.0.0","integrity":"sha512-other","optional":true,"hasInstallScript":true}}}"#;

fn check_lock(text: &str) -> Result<Record, PackageError> {
    read_lock(&package("x"), text, |path| path != "node_modules/other-platform")
}

#[test]
fn a_lock_tells_integrity_and_the_digest_of_all_else() {
    let record = check_lock(LOCK).unwrap();
    assert_eq!(
        (record.version.as_str(), record.integrity.as_deref()),
        ("1.0.0", Some("sha512-own"))
    );
    assert!(
        !record.has_install_script,
        "the script of a package that was not installed is none"
    );
    let covered = concat!(
        r#"[{"integrity":"sha512-dep","path":"node_modules/dep","version":"2.0.0"},"#,
        r#"{"path":"node_modules/dep/node_modules/packed","version":"0.1.0"},"#,
        r#"{"integrity":"sha512-other","path":"node_modules/other-platform","version":"3.0.0"}]"#
    );
    assert_eq!(
        record.dependencies,
        Some(Digest::of_canonical(covered).to_string())
    );
}

#[test]
fn another_dependency_version_is_another_digest_and_another_package_is_not() {
    let dependencies = |text: &str| check_lock(text).unwrap().dependencies;
    assert_ne!(
        dependencies(LOCK),
        dependencies(&LOCK.replace("sha512-dep", "sha512-new"))
    );
    assert_ne!(dependencies(LOCK), dependencies(&LOCK.replace("2.0.0", "2.0.1")));
    assert_eq!(
        dependencies(LOCK),
        dependencies(&LOCK.replace("sha512-own", "sha512-new"))
    );
}

#[test]
fn an_install_script_of_a_dependency_is_noticed() {
    let with_script = LOCK.replace(r#""sha512-dep""#, r#""sha512-dep","hasInstallScript":true"#);
    assert!(check_lock(&with_script).unwrap().has_install_script);
}

#[test]
fn a_dependency_from_outside_the_registry_is_refused() {
    for outside in [
        r#""resolved":"git+ssh://git@git.example/dep.git#0123""#,
        r#""resolved":"https://files.example/dep.tgz","integrity":"sha512-dep""#,
        r#""resolved":"file:../dep""#,
        r#""resolved":"../dep","link":true"#,
    ] {
        let error = check_lock(&LOCK.replace(r#""integrity":"sha512-dep""#, outside)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "npm failed: `node_modules/dep` comes from outside the registry",
            "{outside}"
        );
    }
}

#[test]
fn another_package_in_its_place_is_refused_and_a_dependency_may_have_another_name() {
    let own = LOCK.replace(
        r#""integrity":"sha512-own""#,
        r#""name":"other","integrity":"sha512-own""#,
    );
    insta::assert_snapshot!(check_lock(&own).unwrap_err(), @"npm failed: the registry answered with `other`");
    let dependency = LOCK.replace(
        r#""integrity":"sha512-dep""#,
        r#""name":"other","integrity":"sha512-dep""#,
    );
    assert!(check_lock(&dependency).is_ok());
}

#[test]
fn a_dependency_without_integrity_is_refused() {
    let error = check_lock(&LOCK.replace(r#","integrity":"sha512-dep""#, "")).unwrap_err();
    insta::assert_snapshot!(error, @"npm failed: the registry gives no integrity for `node_modules/dep`");
}

#[test]
fn the_program_is_the_one_named_as_the_package() {
    let check = |bin: Value| {
        choose_program("@scope/name", &bin)
            .map(|program| program.display().to_string())
            .unwrap_or_default()
    };
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(check(json(r#""./cli.js""#)), "cli.js");
    assert_eq!(
        check(json(r#"{"a":"a.js","name":"dist/name.js"}"#)),
        "dist/name.js"
    );
    assert_eq!(check(json(r#"{"other":"other.js"}"#)), "other.js");
    assert_eq!(check(json(r#"{"z":"z.js","b":"b.js"}"#)), "b.js");
    assert_eq!(
        check(json(r#""../../../bin/sh""#)),
        "bin/sh",
        "inside the package"
    );
    for none in [
        Value::Null,
        json("{}"),
        json(r#""""#),
        json(r#"{"name":7}"#),
        json(r#"".""#),
    ] {
        assert_eq!(check(none.clone()), "", "{none}");
    }
}

#[test]
fn node_starts_what_is_javascript() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("node_modules/x");
    std::fs::create_dir_all(&home).unwrap();
    let check = |file: &str, text: &str| {
        std::fs::write(home.join("package.json"), format!(r#"{{"bin":"{file}"}}"#)).unwrap();
        std::fs::write(home.join(file), text).unwrap();
        let launch = launch(&package("x"), "1.0.0", folder.path(), Path::new("node")).unwrap();
        let line = [vec![launch.program], launch.args].concat().join(" ");
        line.replace(&home.display().to_string(), "HOME")
    };
    assert_eq!(check("a.js", "import 'x'"), "node HOME/a.js");
    assert_eq!(check("a.mjs", "#!/bin/sh"), "node HOME/a.mjs");
    assert_eq!(check("a", "#!/usr/bin/env node\r\n"), "node HOME/a");
    assert_eq!(
        check("a", "#!/usr/local/bin/node --no-warnings\n"),
        "node --no-warnings HOME/a"
    );
    assert_eq!(
        check("a.js", "#!/usr/bin/env -S node --no-warnings --x\n"),
        "node --no-warnings --x HOME/a.js"
    );
    assert_eq!(check("a", "#!/bin/sh\n"), "HOME/a");
    assert_eq!(check("a", "\u{7f}ELF"), "HOME/a");
    assert_eq!(check("a", ""), "HOME/a");
}

#[test]
fn a_package_whose_program_is_missing_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("node_modules/x");
    std::fs::create_dir_all(&home).unwrap();
    for manifest in [r#"{"bin":"gone.js"}"#, "{}"] {
        std::fs::write(home.join("package.json"), manifest).unwrap();
        let error = launch(&package("x"), "1.0.0", folder.path(), Path::new("node")).err();
        assert_eq!(error, Some(package("x").no_program("1.0.0")));
    }
}
