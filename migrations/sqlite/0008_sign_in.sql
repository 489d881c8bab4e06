-- People who are signed in, the personal links that open sessions, and sign-ins that are under way. What a browser or a
-- link holds is kept as its SHA-256 only.

create table sessions (
    id text not null primary key,
    hash blob not null unique check (length(hash) = 32),
    reviewer text not null,
    method text not null check (method in ('oidc', 'link', 'dev_link')),
    -- The one approval that it reaches; everything of the reviewer's where there is none.
    approval_id text,
    authenticated_at integer not null,
    opened_at integer not null,
    last_seen_at integer not null,
    ends_at integer not null,
    revoked_at integer
) strict, without rowid;

create index sessions_reviewer on sessions (reviewer, ends_at);
create index sessions_end on sessions (ends_at);

create table links (
    hash blob not null primary key check (length(hash) = 32),
    reviewer text not null,
    -- The one approval that it is about; the inbox where there is none.
    approval_id text,
    created_at integer not null,
    expires_at integer not null,
    spent_at integer
) strict, without rowid;

create index links_end on links (expires_at);

create table sign_in_attempts (
    state_hash blob not null primary key check (length(state_hash) = 32),
    browser_hash blob not null check (length(browser_hash) = 32),
    target text not null,
    fresh integer not null check (fresh in (0, 1)),
    expires_at integer not null
) strict, without rowid;

create index sign_in_attempts_end on sign_in_attempts (expires_at);
