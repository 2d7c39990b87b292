//! Rights that are given away when all that needs them is done.

use std::io;
use std::path::Path;

use caps::CapSet;
use nix::sys::prctl;
use nix::unistd::{User, chown, geteuid, setgroups, setresgid, setresuid};

/// Who the process is from now on: `name` if there is such a user and we may, and without any capability in any case. Call it
/// before there are threads.
///
/// # Errors
/// When rights cannot be given away: who keeps them must not go on.
pub fn give_away(name: &str) -> io::Result<Given> {
    let mut given = Given { user: None };
    let now = geteuid();
    given.user = User::from_uid(now)?.map(|user| user.name).filter(|user| user == name);
    if now.is_root() && !name.is_empty() {
        // `sudo` and systemd both begin as root.
        if let Some(user) = User::from_name(name)? {
            setgroups(&[user.gid])?;
            setresgid(user.gid, user.gid, user.gid)?;
            setresuid(user.uid, user.uid, user.uid)?;
            given.user = Some(user.name);
        }
    }
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|why| io::Error::other(why.to_string()))?;
    }
    prctl::set_no_new_privs()?;
    Ok(given)
}

/// What became of the rights.
#[derive(Debug)]
pub struct Given {
    /// Who the process is, if it is who it should be; none: who it was.
    pub user: Option<String>,
}

/// What was made at `path` is `name`'s from now on, if there is such a user. Who is that user already has made what is its own, and
/// does not ask: systemd's filter lets it change no owner.
///
/// # Errors
/// When the system refuses it.
pub fn hand_over(path: &Path, name: &str) -> io::Result<()> {
    let owner = User::from_name(name).ok().flatten().map(|user| user.uid);
    match owner.filter(|&owner| owner != geteuid()) {
        Some(owner) => Ok(chown(path, Some(owner), None)?),
        None => Ok(()),
    }
}
