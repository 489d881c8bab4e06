//! What `app::ports` promises, held by both engines.

mod approvals;
mod changes;
mod decisions;
mod log;
mod outbox;
mod records;
mod runs;
mod sessions;
mod subjects;
mod transactions;

/// Every test named, on each engine.
macro_rules! on_both_engines {
    ($($test:ident,)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                crate::support::store::on_sqlite(super::$test).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                crate::support::store::on_postgres(super::$test).await;
            })*
        }
    };
}

use on_both_engines;
