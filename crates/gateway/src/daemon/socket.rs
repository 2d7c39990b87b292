//! The socket in the file system by which `tidegatectl` talks to the daemon.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::rights;

/// Opens the socket of `tidegatectl` at `path`, for root and `user`.
///
/// # Errors
/// When the system refuses it, or another daemon has it.
pub fn open(path: &Path, user: &str) -> io::Result<UnixListener> {
    let other = |what: &str| Err(io::Error::other(format!("{what}, or choose another `gateway.socket`")));
    match UnixStream::connect(path).map_err(|why| why.kind()) {
        Ok(_) => return other("another daemon answers there; stop it"),
        // What a daemon left that is gone; nothing else is removed.
        Err(io::ErrorKind::ConnectionRefused)
            if path.symlink_metadata().is_ok_and(|about| about.file_type().is_socket()) =>
        {
            let _ = std::fs::remove_file(path);
        }
        Err(io::ErrorKind::PermissionDenied) => return other("it is another user's; remove it"),
        Err(io::ErrorKind::InvalidInput) => {
            return other("the path is longer than sockets may have; shorten it");
        }
        Err(_) if path.symlink_metadata().is_ok() => {
            return other("another program has its own there, or it is no socket; move that");
        }
        Err(_) => {}
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    rights::hand_over(path, user)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn only_a_socket_that_nobody_has_any_more_is_replaced() {
        let folder = std::env::temp_dir().join(format!("tidegate-socket-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room");
        let path = folder.join("gateway.sock");
        let said = |at: &Path| open(at, "nobody-of-this-name").map_err(|why| why.to_string());
        let first = said(&path).expect("nothing is there");
        assert!(said(&path).unwrap_err().contains("another daemon answers there; stop it"));
        drop(first);
        drop(said(&path).expect("nobody has it any more"));
        std::fs::remove_file(&path).expect("it is there");
        let another = UnixDatagram::bind(&path).expect("nothing is there");
        assert!(said(&path).unwrap_err().contains("another program has its own there"));
        drop(another);
        std::fs::remove_file(&path).expect("it was not taken away");
        std::fs::write(&path, "somebody's").expect("there is room");
        assert!(said(&path).unwrap_err().contains("or it is no socket; move that"));
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "somebody's");
        let long = folder.join("x".repeat(120));
        assert!(said(&long).unwrap_err().contains("longer than sockets may have"));
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
