//! Tests of the domain.

mod policy;
