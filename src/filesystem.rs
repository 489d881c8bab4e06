//! Finds out where paths lead on disk, for a service that shares the mount with its executors. It decides nothing.
//!
//! A path is followed below its `base` component by component, links included, and never out of it. Where the kernel
//! has `openat2` (Linux 5.6), it has the last word: with `RESOLVE_BENEATH` and `RESOLVE_NO_MAGICLINKS` the path must
//! lead it to the very file that our answer names without a link.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, readlinkat, statat},
    io::Errno,
};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::{
    app::ports::PathResolver,
    domain::canon::path::{PathFailure, PathFinding, PathQuestion},
};

/// How many calls may look at the disk at once: a mount that hangs takes no more threads than this.
const LOOKUPS: usize = 16;
/// How long all paths of one call may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most links on one way, as Linux has it (`path_resolution(7)`).
const MOST_LINKS: u32 = 40;
/// The most names on one way, those within links included.
const MOST_STEPS: usize = 1024;

/// Directories are opened to go on from them, not to be read.
#[cfg(target_os = "linux")]
const TO_GO_ON: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const TO_GO_ON: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The disk of this machine.
pub struct Disk {
    lookups: Arc<Semaphore>,
    asks_kernel: bool,
}

impl Default for Disk {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS)), asks_kernel: true }
    }
}

impl Disk {
    /// The disk as it is seen where the kernel has no `openat2`.
    pub fn without_openat2() -> Self {
        Self { asks_kernel: false, ..Self::default() }
    }
}

#[async_trait]
impl PathResolver for Disk {
    async fn find(&self, questions: BTreeMap<String, PathQuestion>) -> BTreeMap<String, PathFinding> {
        let asks_kernel = self.asks_kernel;
        let lookups = Arc::clone(&self.lookups);
        let looking = async move {
            let turn = lookups.acquire_owned().await.ok()?;
            let look = move || {
                // Held to the end, whether or not somebody still waits.
                let _turn = turn;
                questions.into_iter().map(|(place, question)| (place, answer(&question, asks_kernel))).collect()
            };
            spawn_blocking(look).await.ok()
        };
        // What is not found out in time stays unknown, and denies.
        timeout(PATIENCE, looking).await.ok().flatten().unwrap_or_default()
    }
}

fn answer(question: &PathQuestion, asks_kernel: bool) -> PathFinding {
    match place_of(question, asks_kernel) {
        Ok(place) => PathFinding::At(place),
        Err(failure) => PathFinding::Failed(failure),
    }
}

fn place_of(question: &PathQuestion, asks_kernel: bool) -> Result<String, PathFailure> {
    // The policy trusts `base`: links on the way to it are followed.
    let base = openat(CWD, &question.base, TO_GO_ON, Mode::empty()).map_err(|_| PathFailure::NoBase)?;
    let kernel = if asks_kernel { kernel::Kernel::of(&base) } else { None };
    if let Some(kernel) = &kernel
        && kernel.leads_to_itself(&question.below)
    {
        return Ok(question.below.clone());
    }
    let walked = Walk::from(&base).follow(&question.below)?;
    if let Some(kernel) = &kernel
        && !kernel.agrees(&question.below, &walked)
    {
        return Err(PathFailure::Changing);
    }
    Ok(walked.place)
}

/// Where a way ended.
struct Walked {
    /// Names without links, with `/` between them.
    place: String,
    /// Whether something is there yet.
    exists: bool,
}

/// A way below `base`, as far as it is gone.
struct Walk<'b> {
    base: &'b OwnedFd,
    /// The directories from `base` to where it stands.
    names: Vec<String>,
    /// The last of them; `None` for `base` itself.
    here: Option<OwnedFd>,
    steps: usize,
    links: u32,
}

impl<'b> Walk<'b> {
    fn from(base: &'b OwnedFd) -> Self {
        Self { base, names: Vec::new(), here: None, steps: 0, links: 0 }
    }

    fn follow(mut self, path: &str) -> Result<Walked, PathFailure> {
        // The next name comes last.
        let mut ahead: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        while let Some(name) = ahead.pop() {
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    self.back()?;
                    continue;
                }
                _ => {}
            }
            self.step()?;
            let here = self.here.as_ref().unwrap_or(self.base).as_fd();
            let found = match statat(here, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                Err(Errno::NOENT) => return self.missing(name, ahead),
                Err(error) => return Err(failure(error)),
            };
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Symlink => {
                    self.links += 1;
                    if self.links > MOST_LINKS {
                        return Err(PathFailure::TooLong);
                    }
                    let target = readlinkat(here, name.as_str(), Vec::new()).map_err(failure)?;
                    let target = target.to_str().map_err(|_| PathFailure::NotUnicode)?;
                    if target.starts_with('/') {
                        return Err(PathFailure::LinkOutOfBase);
                    }
                    ahead.extend(target.rsplit('/').map(str::to_owned));
                }
                FileType::Directory => self.enter(name)?,
                FileType::RegularFile
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => {
                    if !ahead.is_empty() {
                        return Err(PathFailure::NotADirectory);
                    }
                    self.names.push(name);
                    return Ok(Walked { place: self.names.join("/"), exists: true });
                }
            }
        }
        Ok(Walked { place: self.names.join("/"), exists: true })
    }

    fn step(&mut self) -> Result<(), PathFailure> {
        self.steps += 1;
        if self.steps > MOST_STEPS { Err(PathFailure::TooLong) } else { Ok(()) }
    }

    fn enter(&mut self, name: String) -> Result<(), PathFailure> {
        let here = self.here.as_ref().unwrap_or(self.base);
        let opened = openat(here, name.as_str(), TO_GO_ON | OFlags::NOFOLLOW, Mode::empty()).map_err(failure)?;
        self.here = Some(opened);
        self.names.push(name);
        Ok(())
    }

    /// Goes back to the directory above, from `base` on: the `..` on disk may lead elsewhere by now.
    fn back(&mut self) -> Result<(), PathFailure> {
        let mut names = std::mem::take(&mut self.names);
        names.pop().ok_or(PathFailure::LinkOutOfBase)?;
        self.here = None;
        for name in names {
            self.step()?;
            self.enter(name)?;
        }
        Ok(())
    }

    /// What does not exist stands below the directory that does.
    fn missing(mut self, name: String, ahead: Vec<String>) -> Result<Walked, PathFailure> {
        self.names.push(name);
        for name in ahead.into_iter().rev().filter(|name| !matches!(name.as_str(), "" | ".")) {
            if name == ".." {
                return Err(PathFailure::DanglingLink);
            }
            self.step()?;
            self.names.push(name);
        }
        Ok(Walked { place: self.names.join("/"), exists: false })
    }
}

fn failure(error: Errno) -> PathFailure {
    match error {
        Errno::NOTDIR => PathFailure::NotADirectory,
        Errno::NAMETOOLONG => PathFailure::TooLong,
        // It was there, or no link, a moment ago.
        Errno::NOENT | Errno::LOOP => PathFailure::Changing,
        _ => PathFailure::Unreadable,
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    //! What the kernel says of ways below `base`.

    use std::os::fd::OwnedFd;

    use rustix::{
        fs::{Mode, OFlags, ResolveFlags, fstat, openat2},
        io::Errno,
    };

    use super::Walked;

    const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
    /// A rename somewhere may make the kernel ask to be asked again (`openat2(2)`).
    const TRIES: u32 = 4;

    pub(super) struct Kernel<'b> {
        base: &'b OwnedFd,
    }

    impl<'b> Kernel<'b> {
        /// `None` where it has no `openat2`, or a sandbox forbids it.
        pub(super) fn of(base: &'b OwnedFd) -> Option<Self> {
            let kernel = Self { base };
            kernel.open("", BELOW).is_ok().then_some(kernel)
        }

        /// Whether something is at this path, and no link on the way.
        pub(super) fn leads_to_itself(&self, path: &str) -> bool {
            self.open(path, BELOW.union(ResolveFlags::NO_SYMLINKS)).is_ok()
        }

        /// Whether `path` leads to what stands at the place where our own way ended.
        pub(super) fn agrees(&self, path: &str, walked: &Walked) -> bool {
            let asked = self.open(path, BELOW);
            if !walked.exists {
                return matches!(asked, Err(Errno::NOENT));
            }
            let found = self.open(&walked.place, BELOW.union(ResolveFlags::NO_SYMLINKS));
            let (Ok(asked), Ok(found)) = (asked, found) else { return false };
            let (Ok(asked), Ok(found)) = (fstat(asked), fstat(found)) else { return false };
            (asked.st_dev, asked.st_ino) == (found.st_dev, found.st_ino)
        }

        fn open(&self, path: &str, how: ResolveFlags) -> Result<OwnedFd, Errno> {
            let path = if path.is_empty() { "." } else { path };
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let mut answer = Err(Errno::AGAIN);
            for _ in 0..TRIES {
                answer = openat2(self.base, path, flags, Mode::empty(), how);
                if !matches!(answer, Err(Errno::AGAIN)) {
                    break;
                }
            }
            answer
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    //! No other kernel has `openat2`.

    use std::os::fd::OwnedFd;

    use super::Walked;

    pub(super) enum Kernel {}

    impl Kernel {
        pub(super) fn of(_base: &OwnedFd) -> Option<Self> {
            None
        }

        pub(super) fn leads_to_itself(&self, _path: &str) -> bool {
            match *self {}
        }

        pub(super) fn agrees(&self, _path: &str, _walked: &Walked) -> bool {
            match *self {}
        }
    }
}
