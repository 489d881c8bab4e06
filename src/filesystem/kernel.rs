//! What the kernel says of ways below a directory, where it has `openat2`: Linux. It knows nothing of our own ways.

#[cfg(target_os = "linux")]
pub(super) use linux::Kernel;
#[cfg(not(target_os = "linux"))]
pub(super) use none::Kernel;

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::OwnedFd;

    use rustix::{
        fs::{Mode, OFlags, ResolveFlags, fstat, openat2},
        io::Errno,
    };

    const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
    const WITHOUT_LINKS: ResolveFlags = BELOW.union(ResolveFlags::NO_SYMLINKS);
    /// A rename somewhere may make the kernel ask to be asked again (`openat2(2)`).
    const TRIES: u32 = 4;

    /// The kernel, asked about ways below one directory.
    pub(in crate::filesystem) struct Kernel<'b> {
        base: &'b OwnedFd,
    }

    impl<'b> Kernel<'b> {
        /// `None` where it has no `openat2`, or a sandbox forbids it.
        pub(in crate::filesystem) fn below(base: &'b OwnedFd) -> Option<Self> {
            let kernel = Self { base };
            kernel.open("", BELOW).is_ok().then_some(kernel)
        }

        /// Whether something is at this path, and no link on the way.
        pub(in crate::filesystem) fn leads_to_itself(&self, path: &str) -> bool {
            self.open(path, WITHOUT_LINKS).is_ok()
        }

        /// Whether `path`, links followed, leads to what stands at `place`.
        pub(in crate::filesystem) fn leads_to(&self, path: &str, place: &str) -> bool {
            let (Ok(asked), Ok(found)) = (self.open(path, BELOW), self.open(place, WITHOUT_LINKS)) else {
                return false;
            };
            let (Ok(asked), Ok(found)) = (fstat(asked), fstat(found)) else { return false };
            (asked.st_dev, asked.st_ino) == (found.st_dev, found.st_ino)
        }

        /// Whether nothing is at this path, links followed.
        pub(in crate::filesystem) fn leads_to_nothing(&self, path: &str) -> bool {
            matches!(self.open(path, BELOW), Err(Errno::NOENT))
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
mod none {
    use std::os::fd::OwnedFd;

    /// No other kernel has `openat2`.
    pub(in crate::filesystem) enum Kernel {}

    impl Kernel {
        pub(in crate::filesystem) fn below(_base: &OwnedFd) -> Option<Self> {
            None
        }

        pub(in crate::filesystem) fn leads_to_itself(&self, _path: &str) -> bool {
            match *self {}
        }

        pub(in crate::filesystem) fn leads_to(&self, _path: &str, _place: &str) -> bool {
            match *self {}
        }

        pub(in crate::filesystem) fn leads_to_nothing(&self, _path: &str) -> bool {
            match *self {}
        }
    }
}
