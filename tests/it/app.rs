//! Mirrors `src/app`: every use case, on the real store, on each engine.

mod decide_call;
