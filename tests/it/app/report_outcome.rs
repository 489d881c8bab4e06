//! report_outcome
