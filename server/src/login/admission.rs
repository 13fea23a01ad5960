//! Who may sign in: the entries of `[login] allow` against what a provider vouches for.
//!
//! Invariant: with no entry nobody may; an e-mail address counts only where its provider verified it, a domain only where
//! the provider vouches for it.

use super::settings::{Allow, Named};

/// Somebody as their provider tells of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Person {
    /// Who says so.
    pub(crate) issuer: String,
    /// What they call them for good.
    pub(crate) subject: String,
    /// What they call them now.
    pub(crate) login: String,
    /// E-mail addresses that the provider verified, the one to show first.
    pub(crate) emails: Vec<String>,
    /// Domains that the provider vouches for.
    pub(crate) domains: Vec<String>,
    /// Those of the organisations asked for that they are an active member of.
    pub(crate) organisations: Vec<String>,
}

impl Person {
    /// The domains of the verified addresses.
    pub(crate) fn domains_of(emails: &[String]) -> Vec<String> {
        let domain = |email: &String| Some(email.rsplit_once('@')?.1.to_owned());
        emails.iter().filter_map(domain).collect()
    }
}

/// Whether one of the entries lets them in.
pub(crate) fn admits(allow: &[Allow], provider: Named, person: &Person) -> bool {
    let has = |list: &[String], name: &str| list.iter().any(|one| one.eq_ignore_ascii_case(name));
    // Whoever is at the machine of a development index could as well read its database.
    provider == Named::Dev
        || allow.iter().any(|allow| match allow {
            Allow::Organisation(name) => provider == Named::Github && has(&person.organisations, name),
            Allow::GithubLogin(login) => {
                provider == Named::Github && person.login.eq_ignore_ascii_case(login)
            }
            Allow::Domain(name) => has(&person.domains, name),
            Allow::Email(address) => has(&person.emails, address),
            Allow::Everyone(named) => provider == *named,
        })
}

/// What somebody whom nothing lets in lacks, entry by entry. People who are named are not told of.
pub(crate) fn lacking(allow: &[Allow], provider: Named, person: &Person) -> String {
    let mut lacks: Vec<String> = allow
        .iter()
        .filter_map(|allow| match allow {
            Allow::Organisation(name) if provider == Named::Github => Some(format!(
                "no active membership of `{name}` is shown to this index (the organisation may have to approve it)"
            )),
            Allow::Domain(name) => Some(format!("no verified e-mail address is in `{name}`")),
            Allow::Email(_) if person.emails.is_empty() => {
                Some("no verified e-mail address is told at all".to_owned())
            }
            Allow::Email(_) => Some("the verified e-mail address is not one of those named".to_owned()),
            Allow::GithubLogin(_) if provider == Named::Github => {
                Some("the login is not one of those named".to_owned())
            }
            Allow::Organisation(_) | Allow::GithubLogin(_) | Allow::Everyone(_) => None,
        })
        .collect();
    lacks.dedup();
    match lacks.is_empty() {
        true => "nobody is let in by this provider".to_owned(),
        false => lacks.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice() -> Person {
        let emails = vec!["alice@example.com".to_owned()];
        Person {
            login: "Alice".to_owned(),
            domains: Person::domains_of(&emails),
            emails,
            organisations: vec!["acme".to_owned()],
            ..Person::default()
        }
    }

    #[track_caller]
    fn check(allow: &[&str], provider: Named, admitted: bool) {
        let allow: Vec<Allow> = allow.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(
            admits(&allow, provider, &alice()),
            admitted,
            "{allow:?} {provider:?}"
        );
    }

    #[test]
    fn nobody_is_admitted_when_nobody_is_named() {
        check(&[], Named::Github, false);
        check(&[], Named::Oidc, false);
        check(&[], Named::Dev, true);
    }

    #[test]
    fn whoever_fits_one_entry_is_admitted() {
        check(&["github-org:acme"], Named::Github, true);
        check(&["github-org:other", "github:alice"], Named::Github, true);
        check(&["domain:example.com"], Named::Oidc, true);
        check(&["email:ALICE@example.com"], Named::Google, true);
        check(&["everyone:google"], Named::Google, true);
    }

    #[test]
    fn whoever_is_not_admitted_is_told_what_they_lack_and_nobody_elses_name() {
        let lacks = |allow: &[&str], provider, person: &Person| {
            let allow: Vec<Allow> = allow.iter().map(|text| text.parse().unwrap()).collect();
            lacking(&allow, provider, person)
        };
        let entries = [
            "github-org:other",
            "email:bob@example.com",
            "email:eve@example.com",
            "github:bob",
            "domain:acme.example",
        ];
        insta::assert_snapshot!(
            lacks(&entries, Named::Github, &alice()),
            @"no active membership of `other` is shown to this index (the organisation may have to approve it); the verified e-mail address is not one of those named; the login is not one of those named; no verified e-mail address is in `acme.example`"
        );
        insta::assert_snapshot!(
            lacks(&entries, Named::Oidc, &Person::default()),
            @"no verified e-mail address is told at all; no verified e-mail address is in `acme.example`"
        );
        insta::assert_snapshot!(lacks(&["everyone:google"], Named::Oidc, &alice()), @"nobody is let in by this provider");
    }

    #[test]
    fn an_entry_counts_for_its_own_provider_and_name_alone() {
        check(&["github:alice"], Named::Oidc, false);
        check(&["github-org:acme"], Named::Oidc, false);
        check(&["everyone:google"], Named::Oidc, false);
        check(&["domain:ample.com"], Named::Oidc, false);
        check(&["domain:mail.example.com"], Named::Oidc, false);
        check(&["email:bob@example.com"], Named::Oidc, false);
    }
}
