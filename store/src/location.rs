//! Where the data is, as people write it: a Postgres URL, or the path of a SQLite file.
//!
//! Invariant: neither `Display` nor `Debug` shows a password, not even that of a URL that can't be read.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

/// Where the data is.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// One SQLite file, made when it is not there.
    Sqlite(PathBuf),
    /// A Postgres URL. Its password is never printed: show `Location` by its `Display`.
    Postgres(String),
}

/// A text that names no place for data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// Nothing was given.
    #[error("no database given: expected a path, `sqlite:PATH` or `postgres://…`")]
    Empty,
    /// Another kind of database.
    #[error("`{scheme}:` is no database known here: expected a path, `sqlite:PATH` or `postgres://…`")]
    UnknownScheme {
        /// What stood before `://`.
        scheme: String,
    },
}

impl FromStr for Location {
    type Err = LocationError;

    /// `postgres://…` or `postgresql://…`, `sqlite:PATH` (also `sqlite://PATH`), or a path.
    fn from_str(text: &str) -> Result<Location, LocationError> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Location::Postgres(text.to_owned()));
        }
        let path = match text.strip_prefix("sqlite:") {
            Some(path) => path.strip_prefix("//").unwrap_or(path),
            None => match text.split_once("://") {
                Some((scheme, _)) if !scheme.contains('/') => {
                    return Err(LocationError::UnknownScheme {
                        scheme: scheme.escape_debug().to_string(),
                    });
                }
                _ => text,
            },
        };
        if path.is_empty() {
            return Err(LocationError::Empty);
        }
        Ok(Location::Sqlite(PathBuf::from(path)))
    }
}

impl fmt::Display for Location {
    /// The path, or the URL's user, host, port and database: these by name, everything else is left out.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self {
            Location::Sqlite(path) => return write!(formatter, "{}", path.display()),
            Location::Postgres(url) => url,
        };
        let Ok(url) = Url::parse(url) else {
            return formatter.write_str("postgres://…");
        };
        formatter.write_str("postgres://")?;
        if !url.username().is_empty() {
            write!(formatter, "{}@", url.username())?;
        }
        formatter.write_str(url.host_str().unwrap_or_default())?;
        if let Some(port) = url.port() {
            write!(formatter, ":{port}")?;
        }
        formatter.write_str(url.path())?;
        let shown = |name: &str| matches!(name, "host" | "port" | "user" | "dbname");
        for (index, (name, value)) in url.query_pairs().filter(|(name, _)| shown(name)).enumerate() {
            let sign = if index == 0 { '?' } else { '&' };
            write!(formatter, "{sign}{name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Location({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shown: &str) {
        let location: Location = text.parse().unwrap();
        assert_eq!(location.to_string(), shown);
        assert_eq!(format!("{location:?}"), format!("Location({shown})"));
    }

    #[test]
    fn a_location_is_shown_without_its_password() {
        check(
            "postgres://ann:s3cret@db.example:5433/index",
            "postgres://ann@db.example:5433/index",
        );
        check(
            "postgresql://db/index?password=s3cret&user=ann",
            "postgres://db/index?user=ann",
        );
        check(
            "postgres:///t?host=/run/pg&user=ann&sslpassword=s3cret",
            "postgres:///t?host=/run/pg&user=ann",
        );
        check("postgres://ann:s3c ret@[half", "postgres://…");
        check("./data/index.db", "./data/index.db");
    }

    #[test]
    fn a_path_and_two_schemes_are_understood_and_others_refused() {
        let sqlite = |path: &str| Ok(Location::Sqlite(PathBuf::from(path)));
        assert_eq!("data/a.db".parse(), sqlite("data/a.db"));
        assert_eq!("sqlite:a.db".parse(), sqlite("a.db"));
        assert_eq!("sqlite:///var/a.db".parse(), sqlite("/var/a.db"));
        assert_eq!("sqlite:".parse::<Location>(), Err(LocationError::Empty));
        assert_eq!("".parse::<Location>(), Err(LocationError::Empty));
        let scheme = "mysql".to_owned();
        assert_eq!(
            "mysql://u:p@h/d".parse::<Location>(),
            Err(LocationError::UnknownScheme { scheme })
        );
    }
}
