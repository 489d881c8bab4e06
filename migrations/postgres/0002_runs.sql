-- Runs get what is known of them, and agents their pauses. What a family of runs shares (labels, requests) is kept with
-- its head.

alter table agents add column paused_at bigint;
alter table agents add column paused_by text collate "C";

-- The runs above, the nearest first, as JSON: [{"agent": ..., "run": ...}].
alter table runs add column ancestors text collate "C" not null default '[]';
-- The last of them; null for a run that is the head of its family.
alter table runs add column head_agent text collate "C";
alter table runs add column head_run text collate "C";
alter table runs add column on_behalf_of text collate "C";
alter table runs add column labels text collate "C" not null default '[]';
-- Digests of payloads, the oldest first.
alter table runs add column requests text collate "C" not null default '[]';
-- How long those texts are together, in bytes.
alter table runs add column requested_bytes bigint not null default 0;
-- The one among them that the run was declared with.
alter table runs add column request bytea;
-- How it ended, as JSON; null while it has not.
alter table runs add column ending text collate "C";
-- The turn that a worker took up, how much was held in it by then, and until when no other worker gets it (null: for
-- good).
alter table runs add column lease_turn bigint;
alter table runs add column lease_mark bigint;
alter table runs add column lease_until bigint;

alter table runs add constraint runs_head foreign key (head_agent, head_run) references runs (agent, run_id);
create index runs_family on runs (head_agent, head_run) where head_run is not null;

-- What a stack wrote down of a run that waits: its own bytes.
create table parked_runs (
    agent text collate "C" not null,
    run_id text collate "C" not null,
    content_type text collate "C" not null,
    etag text collate "C" not null,
    body bytea not null,
    primary key (agent, run_id),
    foreign key (agent, run_id) references runs (agent, run_id)
);
