-- What calls use up: the uses that limits count, and the grants that let calls through.

-- One row for whatever is counted together, to be locked: an agent, the head of a family of runs, or '' for the tool.
create table limit_keys (
    limit_id text not null,
    key text not null,
    primary key (limit_id, key)
) strict, without rowid;

-- One row for each call that counts. The same call asked again is the same row.
create table limit_uses (
    limit_id text not null,
    key text not null,
    agent text not null,
    run_id text not null,
    turn integer not null,
    tool_use_id text not null,
    args_hash blob not null,
    at integer not null,
    -- Which of the limit's sums it adds to: '', or a hash of what keeps them apart.
    sum_group text not null,
    -- An exact decimal number; null where there is no sum, or the argument was no number.
    amount text,
    -- The decision or the approval that permitted it.
    used_by text not null,
    primary key (limit_id, key, agent, run_id, turn, tool_use_id, args_hash)
) strict, without rowid;

create index limit_uses_window on limit_uses (limit_id, key, at);
create index limit_uses_permitted on limit_uses (used_by);

-- What a grant lets through stands in its payload, beside why it was made.
create table grants (
    id text primary key not null,
    agent text not null,
    run_id text not null,
    tool text not null,
    maker text not null,
    payload_digest blob not null,
    lifts text not null,
    -- The groups whose reviewers see it, as JSON; every reviewer when there is none.
    seen_by text not null,
    max_uses integer not null,
    approval_id text,
    created_at integer not null,
    expires_at integer not null,
    -- Who took it back and when, as JSON.
    revoked text
) strict, without rowid;

create index grants_run on grants (agent, run_id, tool, id);

create table grant_uses (
    grant_id text not null references grants (id),
    turn integer not null,
    tool_use_id text not null,
    args_hash blob not null,
    decision_id text not null,
    at integer not null,
    primary key (grant_id, turn, tool_use_id, args_hash)
) strict, without rowid;
