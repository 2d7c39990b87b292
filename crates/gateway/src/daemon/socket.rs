//! The socket in the file system by which `tidegatectl` talks to the daemon.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use nix::libc;
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};

use super::rights;

/// So many clients may wait to be heard.
const WAITING_MAX: i32 = 128;

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
    let listener = listen(path)?;
    rights::hand_over(made(path)?, user)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Listens at `path`, for who it is alone from the first moment: Linux gives the file the mode that the socket has before.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(WAITING_MAX)?;
    Ok(socket.into())
}

/// The socket at `path`, which was made just now. Who has the folder may have put something else there meanwhile, or a link, which is not
/// to be handed over: a socket that is ours, and has no other name, is nothing that anybody else could give.
fn made(path: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    let is_ours = about.file_type().is_socket() && about.uid() == geteuid().as_raw() && about.nlink() == 1;
    if is_ours { Ok(file) } else { Err(io::Error::other("somebody has put another file there")) }
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

    #[test]
    fn the_socket_is_its_owners_alone_from_the_first_moment_and_nothing_else_is_taken_for_it() {
        let folder = std::env::temp_dir().join(format!("tidegate-socket-made-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room");
        let path = folder.join("gateway.sock");
        let listener = listen(&path).expect("nothing is there");
        let about = made(&path).expect("it is ours").metadata().expect("it is open");
        assert_eq!(about.mode() & 0o777, 0o600);
        UnixStream::connect(&path).expect("it is heard");
        // Who has the folder gives it another name, and puts things in its place: names for it, a link, a file.
        let refused = || made(&path).is_err();
        let (aside, another) = (folder.join("aside"), folder.join("another"));
        std::fs::rename(&path, &aside).expect("it is there");
        assert!(refused(), "nothing is there");
        std::fs::hard_link(&aside, &path).expect("there is room");
        assert!(refused(), "it is a second name");
        std::fs::remove_file(&path).expect("it is there");
        std::os::unix::fs::symlink(&aside, &path).expect("there is room");
        assert!(refused(), "it is a link");
        std::fs::remove_file(&path).expect("it is there");
        std::fs::write(&another, "somebody's").expect("there is room");
        std::fs::rename(&another, &path).expect("it is there");
        assert!(refused(), "it is no socket");
        drop(listener);
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
