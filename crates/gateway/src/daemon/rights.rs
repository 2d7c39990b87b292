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
    let mut given = Given { user: None, is_root: false };
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
    given.is_root = geteuid().is_root();
    Ok(given)
}

/// What became of the rights.
#[derive(Debug)]
pub struct Given {
    /// Who the process is, if it is who it should be; none: who it was.
    pub user: Option<String>,
    /// Whether that is root, who has files without any capability.
    pub is_root: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ones_own_is_not_handed_over_and_what_is_anothers_is() {
        let missing = Path::new("/proc/self/there-is-no-such-file");
        let name = |user: Option<User>| user.expect("it is there").name;
        let own = name(User::from_uid(geteuid()).expect("users can be read"));
        let other = if geteuid().is_root() { "nobody" } else { "root" };
        // Only who asks the system hears that there is no file.
        assert!(hand_over(missing, &own).is_ok());
        assert!(hand_over(missing, "there-is-no-such-user").is_ok());
        assert_eq!(hand_over(missing, other).map_err(|why| why.kind()), Err(io::ErrorKind::NotFound));
    }
}
