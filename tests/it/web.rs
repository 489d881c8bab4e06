//! Mirrors `src/http/web`: the pages as they are written, and as a browser shows them.

mod browser;
mod pages;
