//! The use cases: one file each, one transaction each, committed in sight. They know the domain and the ports only.

pub mod ports;
