-- What reviewers are shown: rendered once, kept as a payload, bound to its approval by digest and by the hash that a
-- decision may name. Approvals from before have none.
alter table approvals add column review_digest bytea;
alter table approvals add column review_hash bytea;

-- The business keys of settled calls. They are values of arguments, so they stand here, where they can be erased, and
-- in no entry of the log.
create table call_subjects (
    name text collate "C" not null,
    value text collate "C" not null,
    decision_id text collate "C" not null,
    agent text collate "C" not null,
    run_id text collate "C" not null,
    turn bigint not null,
    tool_use_id text collate "C" not null,
    tool text collate "C" not null,
    verdict text collate "C" not null,
    approval_id text collate "C",
    at bigint not null,
    primary key (name, value, decision_id)
);
