//! Printing data to standard output.

use std::io::{self, Write};

/// Prints data. A reader that has gone (EPIPE) is not an error; any other failure is, such as a full disk.
pub fn print(data: impl AsRef<[u8]>) -> io::Result<()> {
    let bytes = data.as_ref();
    if bytes.is_empty() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
