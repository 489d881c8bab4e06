//! The integration tests, in one binary; the modules mirror those of the package.

mod domain;
