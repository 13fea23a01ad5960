//! One open transaction on either database, and the macro that compiles one body for both drivers.
//!
//! Invariant: a session that is dropped without [`Session::commit`] has written nothing.

use sqlx::{Postgres, Sqlite, Transaction};

use crate::StoreError;

/// An open transaction.
pub(crate) enum Session {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl Session {
    /// Makes what was written durable.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        match self {
            Session::Sqlite(transaction) => transaction.commit().await?,
            Session::Postgres(transaction) => transaction.commit().await?,
        }
        Ok(())
    }

    /// Whether this is Postgres, for the few statements that differ.
    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, Session::Postgres(_))
    }
}

/// Runs one body on whichever database the session is on: `on!(session, connection => body)`.
macro_rules! on {
    ($session:expr, $connection:ident => $body:expr) => {
        match &mut $session {
            $crate::session::Session::Sqlite(transaction) => {
                let $connection = &mut **transaction;
                $body
            }
            $crate::session::Session::Postgres(transaction) => {
                let $connection = &mut **transaction;
                $body
            }
        }
    };
}
pub(crate) use on;
