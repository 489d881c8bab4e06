-- Who is told instead of whom: once, and in time. How long ago a destination was tried.

-- Whether the channel to be told instead was told, or there is none.
alter table outbox add column passed_on boolean not null default false;

-- When a message was last sent there, in vain or not.
alter table destinations add column tried_at bigint;

-- A channel is told once instead of all who could not be told the same.
delete from outbox
    where instead_of is not null and exists (
        select 1 from outbox as earlier
        where earlier.instead_of is not null and earlier.approval_id = outbox.approval_id
            and earlier.destination = outbox.destination
            and coalesce(earlier.recipient, '') = coalesce(outbox.recipient, '')
            and earlier.event = outbox.event and earlier.at = outbox.at and earlier.seq < outbox.seq
    );
create unique index outbox_told_instead on outbox (approval_id, destination, coalesce(recipient, ''), event, at)
    where instead_of is not null;

create index outbox_told_of_run on outbox (destination, agent, run_id, seq) where state = 'delivered';

drop index outbox_finished;
create index outbox_finished on outbox (finished_at) where state <> 'waiting';
