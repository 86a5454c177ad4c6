//! Descriptors, pipes and standard streams.

mod capture;
pub mod fd;
pub mod host_stdin;
pub mod pipe;
pub mod stdio;
pub mod taped_stdio;
