-- What an approval takes beside votes: the moment from which on a group may see it, and the second click.

-- Zero for groups that the approval names, the escalation for those that may fill in from then on.
alter table approval_groups add column visible_from bigint not null default 0;

-- The last confirmation that a reviewer was given for an approval.
create table confirmations (
    approval_id text collate "C" not null references approvals (id),
    reviewer text collate "C" not null,
    hash bytea not null check (length(hash) = 32),
    review_hash text collate "C" not null,
    valid_from bigint not null,
    expires_at bigint not null,
    spent boolean not null,
    primary key (approval_id, reviewer)
);
