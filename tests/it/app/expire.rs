//! expire
