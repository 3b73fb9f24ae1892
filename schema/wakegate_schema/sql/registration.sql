-- name: registration_add
INSERT INTO registration
    (registration_id, provider, name, state, sealed_secret, url, idempotency_key, instance_id, created_at,
     expected_until, verified_at, retired_at, superseded_until, replacing)
VALUES
    (:registration_id, :provider, :name, :state, :sealed_secret, :url, :idempotency_key, :instance_id, :created_at,
     :expected_until, :verified_at, :retired_at, :superseded_until, :replacing);

-- name: registrations
SELECT * FROM registration ORDER BY created_at, registration_id;

-- name: registration
SELECT * FROM registration WHERE registration_id = :registration_id;

-- name: registration_expected_name
SELECT registration_id FROM registration WHERE provider = :provider AND name = :name AND state = 'expected';

-- name: registrations_of_instance
SELECT * FROM registration
WHERE provider = :provider AND instance_id = :instance_id AND state IN ('verified', 'superseded');

-- name: registration_bind
UPDATE registration SET state = 'verified', instance_id = :instance_id, verified_at = :at
WHERE registration_id = :registration_id AND state IN ('expected', 'verified');

-- name: registration_replacing
SELECT registration_id FROM registration
WHERE provider = :provider AND instance_id = :instance_id AND replacing = 1;

-- name: registration_in_force
UPDATE registration SET replacing = 0 WHERE registration_id = :registration_id;

-- name: registrations_supersede
UPDATE registration SET state = 'superseded', superseded_until = :until
WHERE provider = :provider AND instance_id = :instance_id AND state = 'verified' AND registration_id <> :registration_id;

-- name: registrations_end_sooner
-- An overlap never becomes longer.
UPDATE registration SET superseded_until = :until
WHERE provider = :provider AND instance_id = :instance_id AND state = 'superseded' AND superseded_until > :until;

-- name: registration_retire
-- While its instance lives, what it signs from now on is not taken: a sender that were acknowledged would stop sending.
UPDATE registration
SET state = 'retired', retired_at = :at, replacing = 0,
    superseded_until = CASE WHEN EXISTS (
        SELECT 1 FROM instance
        WHERE instance.provider = registration.provider AND instance.instance_id = registration.instance_id
            AND instance.state <> 'retired'
    ) THEN {least}(:at, COALESCE(superseded_until, :at)) ELSE superseded_until END
WHERE registration_id = :registration_id AND state <> 'retired';

-- name: registrations_retire
UPDATE registration SET state = 'retired', retired_at = :at, replacing = 0
WHERE provider = :provider AND instance_id = :instance_id AND state <> 'retired';

-- name: registration_reseal
-- Not when it was erased or replaced meanwhile.
UPDATE registration SET sealed_secret = :sealed
WHERE registration_id = :registration_id AND sealed_secret = :seen AND sealed_secret <> {no_bytes};

-- name: instance_add
INSERT INTO instance
    (provider, instance_id, name, state, state_reason, delivery, sealed_credential, credential_expires_at,
     created_at, retired_at)
VALUES
    (:provider, :instance_id, :name, :state, :state_reason, :delivery, :sealed_credential, :credential_expires_at,
     :created_at, :retired_at);

-- name: instances
SELECT * FROM instance ORDER BY created_at, instance_id;

-- name: instance
SELECT * FROM instance WHERE provider = :provider AND instance_id = :instance_id;

-- name: instance_named
SELECT * FROM instance WHERE name = :name AND state <> 'retired';

-- name: instance_set_credential
UPDATE instance
SET sealed_credential = :sealed, credential_expires_at = :expires_at, state = 'active', state_reason = NULL
WHERE provider = :provider AND instance_id = :instance_id AND state <> 'retired';

-- name: instance_park
-- Not when the credential was replaced after it was used.
UPDATE instance SET state = 'parked', state_reason = :reason
WHERE provider = :provider AND instance_id = :instance_id AND state = 'active' AND sealed_credential = :seen;

-- name: instance_reseal
-- Nothing but the sealing: a parked instance stays parked.
UPDATE instance SET sealed_credential = :sealed
WHERE provider = :provider AND instance_id = :instance_id AND sealed_credential = :seen;

-- name: instance_retire
UPDATE instance
SET state = 'retired', state_reason = NULL, sealed_credential = NULL, credential_expires_at = NULL, retired_at = :at
WHERE provider = :provider AND instance_id = :instance_id AND state <> 'retired';

-- name: instance_make_due
-- The unary plus keeps the planner from reading all that the instance ever had: what is due is in an index of its own.
UPDATE execution SET due_at = {least}(due_at, :at, COALESCE(lease_until - 1, due_at)), problem = NULL, tries = 0
WHERE {unindexed}provider = :provider AND {unindexed}instance_id = :instance_id AND due_at IS NOT NULL
    AND epoch = (SELECT MAX(number) FROM epoch);

-- name: instance_cancels_due
UPDATE execution SET cancel_due_at = :at
WHERE {unindexed}provider = :provider AND {unindexed}instance_id = :instance_id AND cancel_due_at IS NOT NULL;

-- name: instance_abandon
-- Without its credential nothing can be cancelled any more.
UPDATE execution
SET state = 'abandoned', reason = 'instance_retired', actor = :actor, problem = NULL, due_at = NULL,
    hold_until = NULL, finished_at = :at, changed_at = :at
WHERE {unindexed}provider = :provider AND {unindexed}instance_id = :instance_id
    AND state IN ('saved', 'submitting', 'waiting', 'permitted')
    AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt');

-- name: instance_forget_cancels
UPDATE execution SET cancel_due_at = NULL
WHERE {unindexed}provider = :provider AND {unindexed}instance_id = :instance_id AND cancel_due_at IS NOT NULL;
