//! Errors that `unwrap` and `?` show in words.

use std::error::Error;
use std::fmt;

/// Writes `error` and its causes as a test that fails shows them: what went wrong, and below it why, as
/// far as that is not said already.
///
/// # Errors
/// As the formatter answers.
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

/// Lets `{:?}` of an error say what `{}` says, and its causes: that is what a test shows that calls
/// `unwrap`, and a `main` that returns an error.
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

    use crate::base::disk;
    use crate::engine::ProgramError;

    #[test]
    fn debug_output_of_an_error_is_its_message_and_its_causes() {
        let error = disk::read(Path::new("no such file")).unwrap_err();
        let text = format!("{:?}", ProgramError::from(error));
        let cause = text.strip_prefix("cannot open no such file\ncaused by: ").unwrap();
        assert!(!cause.contains('\n') && !cause.contains("DiskError"), "{text}");
    }
}
