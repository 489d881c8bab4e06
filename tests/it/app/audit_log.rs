//! audit_log
