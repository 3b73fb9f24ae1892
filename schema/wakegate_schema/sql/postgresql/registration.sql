-- name: registrations_among
SELECT registration_id, state, instance_id, retired_at, superseded_until FROM registration
WHERE registration_id = ANY (?::text[]);
