//! checkpoints
