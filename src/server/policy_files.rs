//! Reads the files of a policy: one file, or every policy file below a folder, with the schema files they name. It must
//! not know what they mean.
//!
//! A name that begins with a dot is passed over: editors, version control and the volumes of orchestrators keep their
//! own things there. A link is followed only when what it leads to lies in the folder too, so that whoever may write one
//! file of the folder cannot make another part of the machine policy.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::domain::policy::{self, SourceFile};

/// The most bytes one file may have.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The most policy files a folder may have.
const MOST_FILES: usize = 1_000;

/// Why a policy cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The operating system says no.
    #[error("{path} cannot be read: {error}")]
    Io {
        /// What was read.
        path: String,
        /// What it says.
        error: io::Error,
    },
    /// It is no text.
    #[error("{0} is not UTF-8")]
    NotUtf8(String),
    /// A link leads out of the policy's folder.
    #[error("{0} leads out of the policy's folder")]
    LeadsOut(String),
    /// It is larger than any policy is.
    #[error("{0} is larger than {MOST_BYTES} bytes")]
    TooLarge(String),
    /// There are more files than any policy has.
    #[error("{0} holds more than {MOST_FILES} policy files")]
    TooMany(String),
}

/// Reads the policy at `path`, a file or a folder.
///
/// # Errors
/// [`Unreadable`]; never a part of a policy.
pub fn read(path: &Path) -> Result<Vec<SourceFile>, Unreadable> {
    let canonical = path.canonicalize().map_err(|error| io_error(path, error))?;
    if canonical.is_dir() {
        let folder = Folder { shown: path, canonical };
        return folder.with_schemas(folder.policy_files()?);
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("policy.toml").to_owned();
    let file = SourceFile { path: name, text: text(path, &canonical)? };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = Folder { shown: parent, canonical: parent.canonicalize().map_err(|error| io_error(parent, error))? };
    folder.with_schemas(vec![file])
}

struct Folder<'a> {
    /// As it was given, for messages.
    shown: &'a Path,
    canonical: PathBuf,
}

impl Folder<'_> {
    fn policy_files(&self) -> Result<Vec<SourceFile>, Unreadable> {
        let mut files = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let place = self.canonical.join(&folder);
            for entry in fs::read_dir(&place).map_err(|error| io_error(&place, error))? {
                let entry = entry.map_err(|error| io_error(&place, error))?;
                let name = entry.file_name();
                // A name that is no text can be no policy file's, and no schema's either.
                let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
                let relative = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                let kind = entry.file_type().map_err(|error| io_error(&entry.path(), error))?;
                if kind.is_dir() {
                    folders.push(relative);
                } else if policy::is_policy_file(&relative) {
                    if files.len() == MOST_FILES {
                        return Err(Unreadable::TooMany(self.shown.display().to_string()));
                    }
                    let text = self.text(&relative)?;
                    files.push(SourceFile { path: relative, text });
                }
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }

    /// `files`, and the schema files they name as far as they are there; loading reports the others.
    fn with_schemas(&self, mut files: Vec<SourceFile>) -> Result<Vec<SourceFile>, Unreadable> {
        for path in policy::schema_files(&files) {
            match self.text(&path) {
                Ok(text) => files.push(SourceFile { path, text }),
                Err(Unreadable::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    fn text(&self, relative: &str) -> Result<String, Unreadable> {
        let shown = self.shown.join(relative);
        let canonical = self.canonical.join(relative).canonicalize().map_err(|error| io_error(&shown, error))?;
        if !canonical.starts_with(&self.canonical) {
            return Err(Unreadable::LeadsOut(shown.display().to_string()));
        }
        text(&shown, &canonical)
    }
}

fn text(shown: &Path, canonical: &Path) -> Result<String, Unreadable> {
    let size = fs::metadata(canonical).map_err(|error| io_error(shown, error))?.len();
    if size > MOST_BYTES {
        return Err(Unreadable::TooLarge(shown.display().to_string()));
    }
    let bytes = fs::read(canonical).map_err(|error| io_error(shown, error))?;
    String::from_utf8(bytes).map_err(|_| Unreadable::NotUtf8(shown.display().to_string()))
}

fn io_error(path: &Path, error: io::Error) -> Unreadable {
    Unreadable::Io { path: path.display().to_string(), error }
}
