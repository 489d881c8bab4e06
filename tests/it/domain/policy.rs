//! Tests of the policy.

mod condition;
