-- Moments are integer microseconds since the Unix epoch, hashes are bytea, ids are text as answers show them. Text
-- compares by bytes: ids sort by the time they were made.

-- The log. Its order is `seq`, without a gap from 1 on. The indexes are few, because every decision pays for them:
-- a filter without one (tool, agent, actor, verdict, rule, event) is answered by scanning from the newest entry.
create table audit_entries (
    seq bigint primary key,
    event text collate "C" not null,
    at bigint not null,
    request_id text collate "C",
    actor text collate "C" not null,
    actor_via text collate "C" not null,
    agent text collate "C",
    run_id text collate "C",
    turn bigint,
    tool_use_id text collate "C",
    tool text collate "C",
    decision_id text collate "C",
    approval_id text collate "C",
    approval_code text collate "C",
    verdict text collate "C",
    reason_code text collate "C",
    reason text collate "C",
    rule text collate "C",
    policy_version text collate "C",
    payload_digest bytea,
    detail text collate "C" not null,
    leaf bytea not null check (length(leaf) = 32),
    chain bytea not null check (length(chain) = 32)
);

create index audit_entries_run on audit_entries (run_id, seq) where run_id is not null;
create index audit_entries_decision on audit_entries (decision_id) where decision_id is not null;
create index audit_entries_approval on audit_entries (approval_id) where approval_id is not null;
create index audit_entries_code on audit_entries (approval_code) where approval_code is not null;
-- Callers choose request ids: a hash index takes any length and keeps four bytes of it.
create index audit_entries_request on audit_entries using hash (request_id) where request_id is not null;
create index audit_entries_at on audit_entries (at, seq);

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name;
end
$$;

-- For the statement, not for each row: what matches no row is refused too.
create trigger audit_entries_append_only before update or delete or truncate on audit_entries
    for each statement execute function refuse_change();

-- The end of the log: one row, moved by whoever appends.
create table audit_head (
    id bigint primary key check (id = 1),
    seq bigint not null,
    chain bytea not null check (length(chain) = 32)
);

insert into audit_head (id, seq, chain) values (1, 0, decode(repeat('00', 32), 'hex'));

create trigger audit_head_moves_on before update on audit_head
    for each row when (new.seq <= old.seq) execute function refuse_change();
create trigger audit_head_stays before delete or truncate on audit_head
    for each statement execute function refuse_change();

-- What entries name by digest, kept apart so that it can be erased.
create table payloads (
    digest bytea primary key,
    salt bytea not null,
    body text collate "C" not null,
    created_at bigint not null default (extract(epoch from clock_timestamp()) * 1000000)::bigint
);

create table agents (
    agent text collate "C" primary key
);

create table runs (
    agent text collate "C" not null,
    run_id text collate "C" not null,
    primary key (agent, run_id)
);

create table approvals (
    id text collate "C" primary key,
    code text collate "C" not null constraint approvals_code_key unique,
    agent text collate "C" not null,
    run_id text collate "C" not null,
    turn bigint not null,
    tool_use_id text collate "C" not null,
    tool text collate "C" not null,
    args_hash bytea not null,
    payload_digest bytea not null,
    decision_id text collate "C" not null,
    policy_version text collate "C" not null,
    asked_by text collate "C" not null,
    reason text collate "C" not null,
    requirement text collate "C" not null,
    attempt bigint not null,
    created_at bigint not null,
    expires_at bigint not null,
    state text collate "C" not null
        check (state in ('pending', 'approved', 'denied', 'expired', 'cancelled', 'executed')),
    state_data text collate "C" not null,
    -- What follows repeats parts of the state, for indexes.
    next_deadline bigint,
    denied_by_person boolean not null,
    lifted boolean not null,
    unsettled boolean not null
);

create index approvals_state on approvals (state, id);
create index approvals_run on approvals (run_id, agent, id);
create index approvals_open on approvals (agent, run_id, expires_at) where state in ('pending', 'approved');
create index approvals_denied on approvals (agent, run_id, tool, args_hash) where denied_by_person;
create index approvals_deadline on approvals (next_deadline) where next_deadline is not null;
create index approvals_unsettled on approvals (id) where unsettled;

-- The groups an approval names; one without any is for every reviewer.
create table approval_groups (
    approval_id text collate "C" not null references approvals (id),
    name text collate "C" not null,
    primary key (approval_id, name)
);

-- Which approval holds a call; the newest, where one followed another.
create table held_calls (
    agent text collate "C" not null,
    run_id text collate "C" not null,
    turn bigint not null,
    tool_use_id text collate "C" not null,
    approval_id text collate "C" not null references approvals (id),
    primary key (agent, run_id, turn, tool_use_id)
);

create index held_calls_approval on held_calls (approval_id);

create table idempotency (
    caller text collate "C" not null,
    route text collate "C" not null,
    key text collate "C" not null,
    body_hash bytea not null,
    decision_id text collate "C" not null,
    answer text collate "C" not null,
    created_at bigint not null,
    primary key (caller, route, key)
);

create table decision_outcomes (
    decision_id text collate "C" primary key,
    status text collate "C" not null,
    payload_digest bytea,
    at bigint not null
);

create table keys (
    id text collate "C" primary key,
    name text collate "C" not null,
    roles text collate "C" not null,
    agents text collate "C" not null,
    hash bytea not null constraint keys_hash_key unique,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint
);

create table policies (
    version text collate "C" primary key,
    accepted_at bigint not null
);

create table policy_files (
    version text collate "C" not null references policies (version),
    path text collate "C" not null,
    body text collate "C" not null,
    primary key (version, path)
);

-- The private permit key that all instances share, when none is configured.
create table permit_keys (
    id bigint primary key check (id = 1),
    secret bytea not null,
    created_at bigint not null
);

create table checkpoints (
    size bigint primary key,
    root bytea not null,
    at bigint not null,
    signature text collate "C",
    key_id text collate "C",
    frontier text collate "C" not null
);

create trigger checkpoints_append_only before update or delete or truncate on checkpoints
    for each statement execute function refuse_change();
