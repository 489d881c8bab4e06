//! The integration tests; their modules mirror `src`.

mod domain;
