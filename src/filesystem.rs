//! Finds out where paths lead on disk, for a service that shares the mount with its executors. It decides nothing.
//!
//! A path is followed below its `base` component by component, links included, and never out of it. Where the kernel
//! has `openat2` (Linux 5.6), it has the last word: with `RESOLVE_BENEATH` and `RESOLVE_NO_MAGICLINKS` the path must
//! lead it to the very file that our answer names without a link.

mod kernel;

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
use kernel::Kernel;

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
    let path = question.below.as_str();
    // The policy trusts `base`: links on the way to it are followed.
    let base = openat(CWD, &question.base, TO_GO_ON, Mode::empty()).map_err(|_| PathFailure::NoBase)?;
    let kernel = if asks_kernel { Kernel::below(&base) } else { None };
    let Some(kernel) = kernel else { return Walk::from(&base).follow(path).map(|walked| walked.place) };
    if kernel.leads_to_itself(path) {
        return Ok(path.to_owned());
    }
    let Walked { place, exists } = Walk::from(&base).follow(path)?;
    let agreed = if exists { kernel.leads_to(path, &place) } else { kernel.leads_to_nothing(path) };
    if agreed { Ok(place) } else { Err(PathFailure::Changing) }
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
