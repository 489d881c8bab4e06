-- What calls use up: the uses that limits count, and the grants that let calls through.

-- One row for whatever is counted together, to be locked: an agent, the head of a family of runs, or '' for the tool.
create table limit_keys (
    limit_id text collate "C" not null,
    key text collate "C" not null,
    primary key (limit_id, key)
);

-- One row for each call that counts. The same call asked again is the same row.
create table limit_uses (
    limit_id text collate "C" not null,
    key text collate "C" not null,
    agent text collate "C" not null,
    run_id text collate "C" not null,
    turn bigint not null,
    tool_use_id text collate "C" not null,
    args_hash bytea not null,
    at bigint not null,
    -- Which of the limit's sums it adds to: '', or a hash of what keeps them apart.
    sum_group text collate "C" not null,
    -- An exact decimal number; null where there is no sum, or the argument was no number.
    amount text collate "C",
    -- The decision or the approval that permitted it.
    used_by text collate "C" not null,
    primary key (limit_id, key, agent, run_id, turn, tool_use_id, args_hash)
);

create index limit_uses_window on limit_uses (limit_id, key, at);
create index limit_uses_permitted on limit_uses (used_by);

-- What a grant lets through stands in its payload, beside why it was made.
create table grants (
    id text collate "C" primary key,
    agent text collate "C" not null,
    run_id text collate "C" not null,
    tool text collate "C" not null,
    maker text collate "C" not null,
    payload_digest bytea not null,
    lifts text collate "C" not null,
    -- The groups whose reviewers see it, as JSON; every reviewer when there is none.
    seen_by text collate "C" not null,
    max_uses bigint not null,
    approval_id text collate "C",
    created_at bigint not null,
    expires_at bigint not null,
    -- Who took it back and when, as JSON.
    revoked text collate "C"
);

create index grants_run on grants (agent, run_id, tool, id);

create table grant_uses (
    grant_id text collate "C" not null references grants (id),
    turn bigint not null,
    tool_use_id text collate "C" not null,
    args_hash bytea not null,
    decision_id text collate "C" not null,
    at bigint not null,
    primary key (grant_id, turn, tool_use_id, args_hash)
);
