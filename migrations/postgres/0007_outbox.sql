-- Messages to reviewers and to the stacks that ask: written by the transaction they tell of, delivered after it.

create table outbox (
    -- In the order they were written: what happened in one moment is told in its order.
    seq bigint generated always as identity primary key,
    id text collate "C" not null unique,
    -- `channel:NAME` or `callback:AGENT`.
    destination text collate "C" not null,
    -- The reviewer, where the channel writes to people.
    recipient text collate "C",
    event text collate "C" not null,
    approval_id text collate "C",
    agent text collate "C",
    run_id text collate "C",
    data text collate "C" not null,
    at bigint not null,
    not_before bigint not null,
    instead_of text collate "C",
    -- `waiting`, `delivered`, `moot` (nobody had to know any more) or `dead` (given up).
    state text collate "C" not null default 'waiting',
    attempts integer not null default 0,
    -- The last attempts that failed, as JSON.
    failed text collate "C" not null default '[]',
    finished_at bigint,
    constraint outbox_topic check ((approval_id is null) <> (run_id is null)),
    constraint outbox_state check (state in ('waiting', 'delivered', 'moot', 'dead'))
);

create index outbox_waiting on outbox (destination, seq) where state = 'waiting';
create index outbox_due on outbox (not_before) where state = 'waiting';
create index outbox_dead on outbox (seq) where state = 'dead';
create index outbox_finished on outbox (finished_at) where state in ('delivered', 'moot');
create index outbox_approval on outbox (approval_id) where approval_id is not null;

-- One row for each destination that was ever served.
create table destinations (
    name text collate "C" primary key,
    -- Who delivers, and until when nobody else does.
    lease text collate "C",
    leased_until bigint not null default 0,
    -- Nothing is sent before this: the destination asked for patience, or its pace does.
    not_before bigint not null default 0,
    failing_since bigint,
    disabled_at bigint,
    disabled_why text collate "C"
);

-- Where an approval was posted, so that every copy can be brought to its final state.
create table postings (
    approval_id text collate "C" not null,
    destination text collate "C" not null,
    -- The channel's own name for the message; several approvals may share one.
    place text collate "C" not null,
    posted_at bigint not null,
    primary key (approval_id, destination)
);

create index postings_age on postings (posted_at);
create index postings_place on postings (destination, place);
