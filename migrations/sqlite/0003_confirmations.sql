-- What an approval takes beside votes: the moment from which on a group may see it, and the second click.

-- Zero for groups that the approval names, the escalation for those that may fill in from then on.
alter table approval_groups add column visible_from integer not null default 0;

-- The last confirmation that a reviewer was given for an approval.
create table confirmations (
    approval_id text not null references approvals (id),
    reviewer text not null,
    hash blob not null check (length(hash) = 32),
    review_hash text not null,
    valid_from integer not null,
    expires_at integer not null,
    spent integer not null,
    primary key (approval_id, reviewer)
) strict, without rowid;
