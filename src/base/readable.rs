//! Errors whose debug output is readable.

use std::error::Error;
use std::fmt;

/// Writes `error` and its causes, each unless the text before already contains it.
///
/// # Errors
/// Errors of the formatter.
pub fn write(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut said = error.to_string();
    f.write_str(&said)?;
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !said.contains(&message) {
            write!(f, "\ncaused by: {message}")?;
            said.push_str(&message);
        }
        cause = error.source();
    }
    Ok(())
}

/// Makes `{:?}` of an error print its message and causes, for `unwrap` in tests and for `main`.
macro_rules! readable {
    ($error:ty) => {
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::base::readable::write(self, f)
            }
        }
    };
}

pub(crate) use readable;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::base::disk::{self, DiskError};

    #[derive(thiserror::Error)]
    #[error("the tape cannot be read")]
    struct Outer(#[source] DiskError);

    readable!(Outer);

    #[test]
    fn debug_output_of_an_error_is_its_message_and_its_causes() {
        let error = Outer(disk::read(Path::new("no such file")).unwrap_err());
        let text = format!("{error:?}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["the tape cannot be read", "caused by: cannot open no such file"]);
        assert!(lines.len() == 3 && lines[2].starts_with("caused by: "), "{text}");
    }
}
