//! Mirrors `src/filesystem.rs`: paths on a real disk, with and without the kernel's help.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    path::Path,
};

use countersign::{
    app::ports::PathResolver as _,
    domain::canon::path::{
        PathFailure::{self, DanglingLink, LinkOutOfBase, NoBase, NotADirectory, NotUnicode, TooLong},
        PathFinding, PathQuestion,
    },
    filesystem::Disk,
};
use tempfile::TempDir;

/// A folder with a base in it, and something beside the base.
fn base() -> (TempDir, std::path::PathBuf) {
    let folder = TempDir::new().unwrap();
    let base = folder.path().join("base");
    fs::create_dir_all(base.join("docs/deep")).unwrap();
    fs::create_dir_all(folder.path().join("base-evil")).unwrap();
    fs::write(base.join("docs/a.txt"), "a").unwrap();
    fs::write(folder.path().join("secret"), "s").unwrap();
    (folder, base)
}

/// Where a path leads, by both ways of finding out, which agree.
async fn found(base: &Path, below: &str) -> PathFinding {
    let question = PathQuestion { base: base.to_str().unwrap().to_owned(), below: below.to_owned() };
    let questions = BTreeMap::from([("p".to_owned(), question)]);
    let one = Disk::default().find(questions.clone()).await;
    let other = Disk::without_openat2().find(questions).await;
    assert_eq!(one, other);
    one["p"].clone()
}

fn at(place: &str) -> PathFinding {
    PathFinding::At(place.to_owned())
}

fn failed(failure: PathFailure) -> PathFinding {
    PathFinding::Failed(failure)
}

#[tokio::test]
async fn what_is_there_without_links_leads_to_itself() {
    let (_folder, base) = base();
    for path in ["", "docs", "docs/a.txt", "docs/deep"] {
        assert_eq!(found(&base, path).await, at(path));
    }
}

#[tokio::test]
async fn what_is_not_there_yet_stands_below_what_is() {
    let (_folder, base) = base();
    symlink("docs", base.join("d")).unwrap();
    assert_eq!(found(&base, "docs/new.txt").await, at("docs/new.txt"));
    assert_eq!(found(&base, "d/new/more/x").await, at("docs/new/more/x"));
}

#[tokio::test]
async fn links_below_base_are_followed() {
    let (_folder, base) = base();
    symlink("../docs/a.txt", base.join("docs/up")).unwrap();
    symlink("docs", base.join("d")).unwrap();
    symlink("d/up", base.join("far")).unwrap();
    symlink("./docs/deep/..//a.txt", base.join("odd")).unwrap();
    for path in ["docs/up", "d/a.txt", "d/up", "far", "odd"] {
        assert_eq!(found(&base, path).await, at("docs/a.txt"), "{path}");
    }
}

#[tokio::test]
async fn a_link_out_of_base_leads_nowhere_wherever_it_stands() {
    let (folder, base) = base();
    symlink("../secret", base.join("out")).unwrap();
    symlink("..", base.join("docs/above")).unwrap();
    symlink("../..", base.join("docs/deep/twice")).unwrap();
    symlink("../base-evil", base.join("beside")).unwrap();
    symlink(folder.path().join("secret"), base.join("absolute")).unwrap();
    symlink(base.join("docs"), base.join("absolute-but-inside")).unwrap();
    symlink("../base/docs", base.join("out-and-in")).unwrap();
    for path in ["out", "beside", "beside/new", "absolute", "absolute-but-inside/a.txt", "out-and-in/a.txt"] {
        assert_eq!(found(&base, path).await, failed(LinkOutOfBase), "{path}");
    }
    assert_eq!(found(&base, "docs/above/docs/a.txt").await, at("docs/a.txt"));
    assert_eq!(found(&base, "docs/deep/twice/x").await, at("x"));
    symlink("../../secret", base.join("docs/deep/three")).unwrap();
    assert_eq!(found(&base, "docs/deep/three").await, at("secret"), "another `secret`, below base and not there");
}

#[tokio::test]
async fn a_link_to_what_is_not_there_leads_to_where_it_would_be_made() {
    let (_folder, base) = base();
    symlink("docs/later.txt", base.join("later")).unwrap();
    symlink("../elsewhere", base.join("outside")).unwrap();
    symlink("nothing/../docs/a.txt", base.join("odd")).unwrap();
    assert_eq!(found(&base, "later").await, at("docs/later.txt"));
    assert_eq!(found(&base, "outside").await, failed(LinkOutOfBase));
    assert_eq!(found(&base, "odd").await, failed(DanglingLink));
}

#[tokio::test]
async fn circles_and_endless_ways_end() {
    let (_folder, base) = base();
    symlink("b", base.join("a")).unwrap();
    symlink("a", base.join("b")).unwrap();
    assert_eq!(found(&base, "a").await, failed(TooLong));
    assert_eq!(found(&base, &["x"; 1025].join("/")).await, failed(TooLong));
    for number in 0..41 {
        symlink(format!("l{}", number + 1), base.join(format!("l{number}"))).unwrap();
    }
    assert_eq!(found(&base, "l0").await, failed(TooLong));
    assert_eq!(found(&base, "l2").await, at("l41"));
}

#[tokio::test]
async fn a_file_is_no_directory() {
    let (_folder, base) = base();
    symlink("docs/a.txt/", base.join("slash")).unwrap();
    assert_eq!(found(&base, "docs/a.txt/x").await, failed(NotADirectory));
    assert_eq!(found(&base, "slash").await, failed(NotADirectory));
}

#[tokio::test]
async fn a_base_that_is_not_there_leads_nowhere() {
    let (folder, base) = base();
    assert_eq!(found(&folder.path().join("gone"), "a").await, failed(NoBase));
    assert_eq!(found(&base.join("docs/a.txt"), "a").await, failed(NoBase));
}

#[tokio::test]
async fn a_link_that_is_no_text_leads_nowhere() {
    let (_folder, base) = base();
    symlink(std::ffi::OsStr::from_bytes(b"doc\xff"), base.join("bytes")).unwrap();
    assert_eq!(found(&base, "bytes").await, failed(NotUnicode));
}

#[tokio::test]
async fn a_link_of_proc_is_not_followed() {
    let answer = found(Path::new("/proc/self"), "exe").await;
    assert_eq!(answer, failed(LinkOutOfBase));
}

#[tokio::test]
async fn base_itself_may_be_reached_through_a_link() {
    let (folder, base) = base();
    symlink(&base, folder.path().join("alias")).unwrap();
    assert_eq!(found(&folder.path().join("alias"), "docs/a.txt").await, at("docs/a.txt"));
}

#[tokio::test]
async fn every_question_gets_its_own_answer() {
    let (_folder, base) = base();
    symlink("docs", base.join("d")).unwrap();
    let question = |below: &str| PathQuestion { base: base.to_str().unwrap().to_owned(), below: below.to_owned() };
    let questions = BTreeMap::from([("/p/0".to_owned(), question("d/a.txt")), ("q".to_owned(), question("d"))]);
    let answers = Disk::default().find(questions).await;
    assert_eq!(answers, BTreeMap::from([("/p/0".to_owned(), at("docs/a.txt")), ("q".to_owned(), at("docs"))]));
}
