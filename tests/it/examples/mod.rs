//! What is in `examples/`: programs that use the library, and folders whose READMEs are carried out.

#[cfg(unix)]
mod folders;
mod programs;
