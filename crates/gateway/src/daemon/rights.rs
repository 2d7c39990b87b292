//! Rights that are given away when all that needs them is done.

use std::io;
use std::os::fd::AsFd;

use caps::CapSet;
use nix::fcntl::AtFlags;
use nix::sys::prctl;
use nix::unistd::{User, fchownat, geteuid, setgroups, setresgid, setresuid};

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
    give_away_here()?;
    given.is_root = geteuid().is_root();
    Ok(given)
}

/// The thread that calls it has no capability from now on, and gets none: for one that there is before the process gives its rights away.
///
/// # Errors
/// When they cannot be given away.
pub fn give_away_here() -> io::Result<()> {
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|why| io::Error::other(why.to_string()))?;
    }
    Ok(prctl::set_no_new_privs()?)
}

/// What became of the rights.
#[derive(Debug)]
pub struct Given {
    /// Who the process is, if it is who it should be; none: who it was.
    pub user: Option<String>,
    /// Whether that is root, who has files without any capability.
    pub is_root: bool,
}

/// What is open as `file` is `name`'s from now on, if there is such a user: a descriptor, and no path, for where that leads may be another
/// file by now. One that was opened as a place alone (`O_PATH`) will do. Who is that user already has made what is its own, and does not
/// ask: systemd's filter lets it change no owner.
///
/// # Errors
/// When the system refuses it.
pub fn hand_over(file: impl AsFd, name: &str) -> io::Result<()> {
    let owner = User::from_name(name).ok().flatten().map(|user| user.uid);
    match owner.filter(|&owner| owner != geteuid()) {
        Some(owner) => Ok(fchownat(file, "", Some(owner), None, AtFlags::AT_EMPTY_PATH)?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

    use nix::libc;

    use super::*;

    #[test]
    fn what_is_open_is_handed_over_wherever_its_path_leads_and_what_is_ones_own_is_not() {
        let folder = std::env::temp_dir().join(format!("tidegate-rights-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("there is room");
        let (path, other) = (folder.join("file"), folder.join("other"));
        let file = File::create(&path).expect("there is room");
        fs::write(&other, "somebody's").expect("there is room");
        let place = fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path);
        let place = place.expect("it is there");
        // Somebody puts a link in its place.
        fs::remove_file(&path).expect("it is there");
        std::os::unix::fs::symlink(&other, &path).expect("there is room");
        let own = geteuid();
        let name = |user: Option<User>| user.expect("it is there").name;
        hand_over(&file, &name(User::from_uid(own).expect("users can be read"))).expect("nobody is asked");
        hand_over(&file, "there-is-no-such-user").expect("nobody is asked");
        let owner = |of: &File| of.metadata().expect("it is open").uid();
        assert_eq!(owner(&file), own.as_raw());
        if own.is_root() {
            let nobody = User::from_name("nobody").expect("users can be read").expect("it is there").uid;
            hand_over(&place, "nobody").expect("root may");
            assert_eq!((owner(&file), owner(&place)), (nobody.as_raw(), nobody.as_raw()));
        } else {
            let refused = hand_over(&file, "root").map_err(|why| why.kind());
            assert_eq!(refused, Err(io::ErrorKind::PermissionDenied), "only who asks the system hears that");
        }
        assert_eq!(owner(&File::open(&other).expect("it is there")), own.as_raw());
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
