-- What reviewers are shown: rendered once, kept as a payload, bound to its approval by digest and by the hash that a
-- decision may name. Approvals from before have none.
alter table approvals add column review_digest blob;
alter table approvals add column review_hash blob;

-- The business keys of settled calls. They are values of arguments, so they stand here, where they can be erased, and
-- in no entry of the log.
create table call_subjects (
    name text not null,
    value text not null,
    decision_id text not null,
    agent text not null,
    run_id text not null,
    turn integer not null,
    tool_use_id text not null,
    tool text not null,
    verdict text not null,
    approval_id text,
    at integer not null,
    primary key (name, value, decision_id)
) strict, without rowid;
