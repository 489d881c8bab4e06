-- Messages to reviewers and to the stacks that ask: written by the transaction they tell of, delivered after it.

create table outbox (
    -- In the order they were written: what happened in one moment is told in its order.
    seq integer primary key autoincrement,
    id text not null unique,
    -- `channel:NAME` or `callback:AGENT`.
    destination text not null,
    -- The reviewer, where the channel writes to people.
    recipient text,
    event text not null,
    approval_id text,
    agent text,
    run_id text,
    data text not null,
    at integer not null,
    not_before integer not null,
    instead_of text,
    -- `waiting`, `delivered`, `moot` (nobody had to know any more) or `dead` (given up).
    state text not null default 'waiting',
    attempts integer not null default 0,
    -- The last attempts that failed, as JSON.
    failed text not null default '[]',
    finished_at integer,
    constraint outbox_topic check ((approval_id is null) <> (run_id is null)),
    constraint outbox_state check (state in ('waiting', 'delivered', 'moot', 'dead'))
) strict;

create index outbox_waiting on outbox (destination, seq) where state = 'waiting';
create index outbox_due on outbox (not_before) where state = 'waiting';
create index outbox_dead on outbox (seq) where state = 'dead';
create index outbox_finished on outbox (finished_at) where state in ('delivered', 'moot');
create index outbox_approval on outbox (approval_id) where approval_id is not null;

-- One row for each destination that was ever served.
create table destinations (
    name text primary key not null,
    -- Who delivers, and until when nobody else does.
    lease text,
    leased_until integer not null default 0,
    -- Nothing is sent before this: the destination asked for patience, or its pace does.
    not_before integer not null default 0,
    failing_since integer,
    disabled_at integer,
    disabled_why text
) strict, without rowid;

-- Where an approval was posted, so that every copy can be brought to its final state.
create table postings (
    approval_id text not null,
    destination text not null,
    -- The channel's own name for the message; several approvals may share one.
    place text not null,
    posted_at integer not null,
    primary key (approval_id, destination)
) strict, without rowid;

create index postings_age on postings (posted_at);
create index postings_place on postings (destination, place);
