-- People who are signed in, the personal links that open sessions, and sign-ins that are under way. What a browser or a
-- link holds is kept as its SHA-256 only.

create table sessions (
    id text collate "C" primary key,
    hash bytea not null unique check (length(hash) = 32),
    reviewer text collate "C" not null,
    method text collate "C" not null check (method in ('oidc', 'link', 'dev_link')),
    -- The one approval that it reaches; everything of the reviewer's where there is none.
    approval_id text collate "C",
    authenticated_at bigint not null,
    opened_at bigint not null,
    last_seen_at bigint not null,
    ends_at bigint not null,
    revoked_at bigint
);

create index sessions_reviewer on sessions (reviewer, ends_at);
create index sessions_end on sessions (ends_at);

create table links (
    hash bytea primary key check (length(hash) = 32),
    reviewer text collate "C" not null,
    -- The one approval that it is about; the inbox where there is none.
    approval_id text collate "C",
    created_at bigint not null,
    expires_at bigint not null,
    spent_at bigint
);

create index links_end on links (expires_at);

create table sign_in_attempts (
    state_hash bytea primary key check (length(state_hash) = 32),
    browser_hash bytea not null check (length(browser_hash) = 32),
    target text collate "C" not null,
    fresh boolean not null,
    expires_at bigint not null
);

create index sign_in_attempts_end on sign_in_attempts (expires_at);
