//! claim_call
