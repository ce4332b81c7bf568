"""Access control: access keys, signatures and the rules of `plain_acl.yml`."""
