-- Moments are integer microseconds since the Unix epoch, hashes are blobs, ids are text as answers show them.

-- The log. Its order is `seq`, without a gap from 1 on. The indexes are few, because every decision pays for them:
-- a filter without one (tool, agent, actor, verdict, rule, event) is answered by scanning from the newest entry.
create table audit_entries (
    seq integer primary key,
    event text not null,
    at integer not null,
    request_id text,
    actor text not null,
    actor_via text not null,
    agent text,
    run_id text,
    turn integer,
    tool_use_id text,
    tool text,
    decision_id text,
    approval_id text,
    approval_code text,
    verdict text,
    reason_code text,
    reason text,
    rule text,
    policy_version text,
    payload_digest blob,
    detail text not null,
    leaf blob not null check (length(leaf) = 32),
    chain blob not null check (length(chain) = 32)
) strict;

create index audit_entries_run on audit_entries (run_id) where run_id is not null;
create index audit_entries_decision on audit_entries (decision_id) where decision_id is not null;
create index audit_entries_approval on audit_entries (approval_id) where approval_id is not null;
create index audit_entries_code on audit_entries (approval_code) where approval_code is not null;
create index audit_entries_request on audit_entries (request_id) where request_id is not null;
create index audit_entries_at on audit_entries (at);

create trigger audit_entries_update before update on audit_entries
begin
    select raise(abort, 'audit_entries is append-only');
end;

create trigger audit_entries_delete before delete on audit_entries
begin
    select raise(abort, 'audit_entries is append-only');
end;

-- `insert or replace` deletes without a delete trigger on a connection without recursive triggers.
create trigger audit_entries_replace before insert on audit_entries
when exists (select 1 from audit_entries where seq = new.seq)
begin
    select raise(abort, 'audit_entries is append-only');
end;

-- The end of the log: one row, moved by whoever appends.
create table audit_head (
    id integer primary key check (id = 1),
    seq integer not null,
    chain blob not null check (length(chain) = 32)
) strict;

insert into audit_head (id, seq, chain) values (1, 0, zeroblob(32));

create trigger audit_head_update before update on audit_head
when new.seq <= old.seq
begin
    select raise(abort, 'audit_head only moves on');
end;

create trigger audit_head_delete before delete on audit_head
begin
    select raise(abort, 'audit_head stays');
end;

-- What entries name by digest, kept apart so that it can be erased.
create table payloads (
    digest blob primary key not null,
    salt blob not null,
    body text not null,
    created_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer))
) strict, without rowid;

create table agents (
    agent text primary key not null
) strict, without rowid;

create table runs (
    agent text not null,
    run_id text not null,
    primary key (agent, run_id)
) strict, without rowid;

create table approvals (
    id text primary key not null,
    code text not null unique,
    agent text not null,
    run_id text not null,
    turn integer not null,
    tool_use_id text not null,
    tool text not null,
    args_hash blob not null,
    payload_digest blob not null,
    decision_id text not null,
    policy_version text not null,
    asked_by text not null,
    reason text not null,
    requirement text not null,
    attempt integer not null,
    created_at integer not null,
    expires_at integer not null,
    state text not null
        check (state in ('pending', 'approved', 'denied', 'expired', 'cancelled', 'executed')),
    state_data text not null,
    -- What follows repeats parts of the state, for indexes.
    next_deadline integer,
    denied_by_person integer not null,
    lifted integer not null,
    unsettled integer not null
) strict;

create index approvals_state on approvals (state, id);
create index approvals_run on approvals (run_id, agent, id);
create index approvals_open on approvals (agent, run_id, expires_at) where state in ('pending', 'approved');
create index approvals_denied on approvals (agent, run_id, tool, args_hash) where denied_by_person;
create index approvals_deadline on approvals (next_deadline) where next_deadline is not null;
create index approvals_unsettled on approvals (id) where unsettled;

-- The groups an approval names; one without any is for every reviewer.
create table approval_groups (
    approval_id text not null references approvals (id),
    name text not null,
    primary key (approval_id, name)
) strict, without rowid;

-- Which approval holds a call; the newest, where one followed another.
create table held_calls (
    agent text not null,
    run_id text not null,
    turn integer not null,
    tool_use_id text not null,
    approval_id text not null references approvals (id),
    primary key (agent, run_id, turn, tool_use_id)
) strict, without rowid;

create index held_calls_approval on held_calls (approval_id);

create table idempotency (
    caller text not null,
    route text not null,
    key text not null,
    body_hash blob not null,
    decision_id text not null,
    answer text not null,
    created_at integer not null,
    primary key (caller, route, key)
) strict, without rowid;

create table decision_outcomes (
    decision_id text primary key not null,
    status text not null,
    payload_digest blob,
    at integer not null
) strict, without rowid;

create table keys (
    id text primary key not null,
    name text not null,
    roles text not null,
    agents text not null,
    hash blob not null unique,
    created_at integer not null,
    expires_at integer,
    revoked_at integer
) strict;

create table policies (
    version text primary key not null,
    accepted_at integer not null
) strict;

create table policy_files (
    version text not null references policies (version),
    path text not null,
    body text not null,
    primary key (version, path)
) strict;

-- The private permit key that all instances share, when none is configured.
create table permit_keys (
    id integer primary key check (id = 1),
    secret blob not null,
    created_at integer not null
) strict;

create table checkpoints (
    size integer primary key,
    root blob not null,
    at integer not null,
    signature text,
    key_id text,
    frontier text not null
) strict;

create trigger checkpoints_update before update on checkpoints
begin
    select raise(abort, 'checkpoints is append-only');
end;

create trigger checkpoints_delete before delete on checkpoints
begin
    select raise(abort, 'checkpoints is append-only');
end;
