//! The order of sort keys is the order of versions, for both registries.

use std::cmp::Ordering;
use std::str::FromStr;

use mcpindex_contract::identity::Registry;
use mcpindex_crawler::version::{is_prerelease, sort_key};
use proptest::prelude::*;

/// Each version has a key greater than the one before it.
fn check_ascending(registry: Registry, versions: &[&str]) {
    let keys: Vec<String> = versions
        .iter()
        .map(|version| sort_key(registry, version).unwrap_or_else(|| panic!("{version}")))
        .collect();
    for (index, pair) in keys.windows(2).enumerate() {
        assert!(
            pair[0] < pair[1],
            "{} < {}: {} {}",
            versions[index],
            versions[index + 1],
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn npm_versions_sort_as_semver_says() {
    check_ascending(
        Registry::Npm,
        &[
            "0.6.2",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.2.9",
            "1.2.10",
            "2025.7.1",
            "2025.11.25",
            "2026.8.31",
        ],
    );
}

#[test]
fn numeric_identifiers_come_before_words_and_count_by_value() {
    check_ascending(
        Registry::Npm,
        &[
            "1.0.0-0",
            "1.0.0-9",
            "1.0.0-10",
            "1.0.0-99999999999999999999999",
            "1.0.0--",
            "1.0.0-0a",
            "1.0.0-a",
            "1.0.0-a-",
        ],
    );
}

#[test]
fn pypi_versions_sort_as_pep_440_says() {
    check_ascending(
        Registry::Pypi,
        &[
            "0",
            "0.0.1",
            "1.dev0",
            "1.0a0.dev1",
            "1.0a0",
            "1.0a1",
            "1.0b2.dev3",
            "1.0b2",
            "1.0b2.post1",
            "1.0rc1",
            "1.0",
            "1.0+abc",
            "1.0+abc.5",
            "1.0+5",
            "1.0.post1.dev4",
            "1.0.post1",
            "1.0.1",
            "1.10",
            "2025.7.1",
            "2025.11.25",
            "1!0.5",
        ],
    );
}

#[test]
fn versions_that_are_equal_by_the_rules_have_one_key() {
    assert_eq!(sort_key(Registry::Pypi, "1.0"), sort_key(Registry::Pypi, "1.0.0"));
    assert_eq!(
        sort_key(Registry::Pypi, "2025.07.01"),
        sort_key(Registry::Pypi, "2025.7.1")
    );
    assert_eq!(
        sort_key(Registry::Npm, "1.0.0+linux"),
        sort_key(Registry::Npm, "1.0.0")
    );
}

#[test]
fn a_text_that_is_no_version_has_no_key_and_counts_as_a_pre_release() {
    let too_long = format!("1.0.0-{}", "a".repeat(300));
    for text in [
        "",
        "latest",
        "1.0",
        "2025.01.14",
        "^1.0.0",
        "v1.0.0",
        "1.0.0-",
        " 1.0.0",
        &too_long,
    ] {
        assert_eq!(sort_key(Registry::Npm, text), None, "{text}");
        assert!(is_prerelease(Registry::Npm, text), "{text}");
    }
    for text in ["", "latest", "1.*", ">=1", "1.0-", "1.0+", "1..0"] {
        assert_eq!(sort_key(Registry::Pypi, text), None, "{text}");
        assert!(is_prerelease(Registry::Pypi, text), "{text}");
    }
    assert_eq!(sort_key(Registry::Oci, "1.0.0"), None);
}

#[test]
fn pre_releases_are_told_from_releases() {
    for (registry, version, expected) in [
        (Registry::Npm, "1.0.0", false),
        (Registry::Npm, "1.0.0+build", false),
        (Registry::Npm, "1.0.0-rc.1", true),
        (Registry::Pypi, "1.0.post1", false),
        (Registry::Pypi, "1.0+local", false),
        (Registry::Pypi, "1.0rc1", true),
        (Registry::Pypi, "1.0.post1.dev2", true),
    ] {
        assert_eq!(is_prerelease(registry, version), expected, "{version}");
    }
}

fn key_order(registry: Registry, left: &str, right: &str) -> Ordering {
    sort_key(registry, left)
        .unwrap()
        .cmp(&sort_key(registry, right).unwrap())
}

/// Few values, so that ties and near misses are frequent; some large ones, so that lengths differ.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..4, 2 => 8u64..12, 1 => 98u64..102, 1 => any::<u64>()]
}

fn semver_text() -> impl Strategy<Value = String> {
    let identifier = prop_oneof![
        "0|[1-9]|1[0-9]|[1-9][0-9]{20,22}",
        "[a-c-][0-9a-c-]{0,2}",
        "[0-9][a-b-]"
    ];
    let pre = proptest::option::weighted(0.7, proptest::collection::vec(identifier, 1..4));
    (
        number(),
        number(),
        number(),
        pre,
        proptest::option::of("[a-z0-9]{1,3}"),
    )
        .prop_map(|(major, minor, patch, pre, build)| {
            let pre = pre
                .map(|parts| format!("-{}", parts.join(".")))
                .unwrap_or_default();
            let build = build.map(|build| format!("+{build}")).unwrap_or_default();
            format!("{major}.{minor}.{patch}{pre}{build}")
        })
}

fn pep440_text() -> impl Strategy<Value = String> {
    let pre = proptest::option::of((prop_oneof![Just("a"), Just("b"), Just("rc")], number()));
    let local = proptest::collection::vec(prop_oneof!["[a-c]{1,2}", "[0-9]{1,3}", "[0-9][a-c]"], 0..3);
    (
        prop_oneof![3 => Just(0u64), 1 => 1u64..12],
        proptest::collection::vec(number(), 1..5),
        pre,
        proptest::option::of(number()),
        proptest::option::of(number()),
        local,
    )
        .prop_map(|(epoch, release, pre, post, dev, local)| {
            let mut text = if epoch == 0 {
                String::new()
            } else {
                format!("{epoch}!")
            };
            text.push_str(&release.iter().map(u64::to_string).collect::<Vec<_>>().join("."));
            text.push_str(
                &pre.map(|(kind, number)| format!("{kind}{number}"))
                    .unwrap_or_default(),
            );
            text.push_str(&post.map(|number| format!(".post{number}")).unwrap_or_default());
            text.push_str(&dev.map(|number| format!(".dev{number}")).unwrap_or_default());
            if !local.is_empty() {
                text.push('+');
                text.push_str(&local.join("."));
            }
            text
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn npm_keys_order_as_semver_precedence(left in semver_text(), right in semver_text()) {
        let versions = (semver::Version::parse(&left).unwrap(), semver::Version::parse(&right).unwrap());
        prop_assert_eq!(key_order(Registry::Npm, &left, &right), versions.0.cmp_precedence(&versions.1));
    }

    #[test]
    fn pypi_keys_order_as_pep_440(left in pep440_text(), right in pep440_text()) {
        let left_version = pep440_rs::Version::from_str(&left).unwrap();
        let right_version = pep440_rs::Version::from_str(&right).unwrap();
        prop_assert_eq!(key_order(Registry::Pypi, &left, &right), left_version.cmp(&right_version));
    }
}
